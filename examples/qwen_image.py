"""Qwen-Image under regional compilation: one block class, 60 blocks, and how many graphs?

    compilescope report examples/qwen_image.py
    compilescope report examples/qwen_image.py --set size=full --device meta

Text of length 0 is left out: the model itself takes a maximum over the text and raises.
"""

from collections.abc import Callable

from compilescope import Axis, workload
from models.diffusers_dits import DITS, Size

QWEN_IMAGE = DITS["qwen_image"]


@workload(
    axes=[Axis("height", [3, 5]), Axis("width", [7, 6]), Axis("text_len", [1, 7, 77])],
    targets=["QwenImageTransformerBlock.forward"],
)
def qwen_image(*, device: str = "cpu", size: str = "tiny", dynamic: bool | None = True) -> Callable[..., object]:
    """Build the model; heights and widths are latent patches, so 64 is 1024 pixels."""
    model = QWEN_IMAGE.build(size=size, device=device, num_layers=3)
    model.compile_repeated_blocks(backend="eager", fullgraph=True, dynamic=dynamic)
    return lambda height, width, text_len: QWEN_IMAGE.call(model, Size(height, width, text_len, device=device))
