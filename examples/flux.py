"""FLUX.1 under regional compilation: how often do its blocks compile over resolutions and text lengths?

    compilescope report examples/flux.py
    compilescope report examples/flux.py --set size=full --device meta

The first builds diffusers' FluxTransformer2DModel with three blocks of each kind and tiny widths; the
second the released model (19 + 38 blocks, 11.9 billion parameters) without weights and without a GPU.
"""

from collections.abc import Callable

from compilescope import Axis, workload
from models.diffusers_dits import DITS, Size

FLUX = DITS["flux"]


@workload(
    axes=[Axis("height", [3, 5]), Axis("width", [7, 6]), Axis("text_len", [0, 1, 7, 77])],
    targets=["FluxTransformerBlock.forward", "FluxSingleTransformerBlock.forward"],
)
def flux(*, device: str = "cpu", size: str = "tiny", dynamic: bool | None = True) -> Callable[..., object]:
    """Build the model; heights and widths are latent patches, so 64 is 1024 pixels."""
    model = FLUX.build(size=size, device=device, num_layers=3, num_single_layers=3)
    model.compile_repeated_blocks(backend="eager", fullgraph=True, dynamic=dynamic)
    return lambda height, width, text_len: FLUX.call(model, Size(height, width, text_len, device=device))
