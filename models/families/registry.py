"""The families by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from models.families.catalogue.flux import FLUX
from models.families.catalogue.flux2 import FLUX2
from models.families.catalogue.hunyuan_video15 import HUNYUAN_VIDEO15
from models.families.catalogue.lumina2 import LUMINA2
from models.families.catalogue.ovis_image import OVIS_IMAGE
from models.families.catalogue.qwen_image import QWEN_IMAGE
from models.families.catalogue.z_image import Z_IMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from models.families.family import Family

FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        "flux": FLUX,
        "flux2": FLUX2,
        "qwen_image": QWEN_IMAGE,
        "z_image": Z_IMAGE,
        "hunyuan_video15": HUNYUAN_VIDEO15,
        "ovis_image": OVIS_IMAGE,
        "lumina2": LUMINA2,
    }
)
"""Every family, fused or not."""

FUSED: Final = tuple(name for name, family in FAMILIES.items() if family.recipe is not None)
"""Names of the families with a recipe."""
