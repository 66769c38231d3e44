"""The fused kernel as Triton's interpreter runs it, on a machine without a GPU.

Triton decides at decoration whether a kernel is interpreted. A second copy of the kernel module is therefore loaded
with TRITON_INTERPRET set for just that long, to be put in place around the tests that want it. Other tests of the same
process see neither the variable nor the copy.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any


@functools.cache
def interpreted_kernel() -> Any:
    """Return the kernel, loaded once a process."""
    import triton  # noqa: F401 (must be imported before the variable is set, to stay as it is for others)

    import fused_ops.launch

    path = fused_ops.launch.__file__.replace("launch.py", "kernels.py")
    spec = importlib.util.spec_from_file_location("interpreted_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    try:
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del os.environ["TRITON_INTERPRET"]
        else:
            os.environ["TRITON_INTERPRET"] = before
    return module.norm_rope_kernel
