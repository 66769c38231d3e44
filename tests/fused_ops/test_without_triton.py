"""Without Triton the package imports, computes with eager torch, and says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
sys.modules["triton"] = None  # an import of it now fails as if it were not installed
import torch
import fused_ops
from fused_ops import reference

call = fused_ops.Call("cuda", torch.bfloat16, torch.float32, 128, 128)
decision = fused_ops.decide(call)
assert decision.reason is fused_ops.Reason.NO_TRITON, decision
assert decision.detail.startswith("Triton cannot be imported: "), decision

x, weight, table = torch.randn(3, 2, 8), torch.randn(8), torch.randn(3, 8)
with fused_ops.count_launches() as counts:
    out = fused_ops.qk_norm_rope(x, x, weight, weight, table, 1e-6)
assert counts.total == 0
assert torch.equal(out[0], reference.norm_rope(x, weight, table, 1e-6))
raw = torch.ops.fused_ops.qk_norm_rope(x, x, weight, weight, table, 1e-6, 8, True, "fast")
assert torch.equal(raw[1], out[1])
print(decision.detail)
"""


def test_the_package_works_and_says_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "triton" in done.stdout


def test_importing_leaves_the_environment_alone() -> None:
    program = "import os; before = dict(os.environ); import fused_ops; assert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=120, check=True)
