"""Seven of diffusers' diffusion transformers by their earlier names; they live in :mod:`models.families`.

No weights are downloaded: a model is its class with seeded random weights, or on ``device="meta"``
without any. Tiny widths are chosen so that no token count of the usual sweeps equals a width, which
would make that dimension static.
"""

from __future__ import annotations

from models.families.family import Family as Dit
from models.families.registry import FAMILIES as DITS
from models.families.size import Size

__all__ = ["DITS", "Dit", "Size"]
