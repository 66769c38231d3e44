"""A process group of one process, for programs that need one."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def single_process_group() -> Iterator[None]:
    """Be the only rank of a gloo group."""
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"{(Path(folder) / 'store').as_uri()}", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()
