"""MammothModa2's transformer under regional compilation: what was found when vLLM-Omni got it.

    compilescope report examples/mammoth_moda2.py

Two compilations of TransformerBlock.forward, one recompile, and it is meant: norm1 is an RMSNorm in the
context refiner and a LuminaRMSNormZero elsewhere. Resolution and text length are free, 0 included.

    compilescope report examples/mammoth_moda2.py --set attention=flash --set masks=unknown --set fullgraph=False

The flash backend asks the mask whether it masks anything, `if torch.any(~mask)`, and the graph breaks there:
one site. Without the second setting the model says it, and nothing breaks. `--set attention=flash_opaque` is the
other break: an op without a fake kernel.

    compilescope report examples/mammoth_moda2.py --set remedies=marks --sweep text_len=0,1,4,77,512 --sweep batch=1,2

Without remedies a text of one token and a second image are graphs of their own; with them, each kind of block
compiles once. `--set size=preview --device meta` runs the released widths without weights.
"""

from collections.abc import Callable

from torch.fx.experimental import _config as shapes

from compilescope import Axis, workload
from models.diffusers_dits import Size
from models.mammoth_moda2 import build, inputs, leave_sizes_free, tables
from models.regional import regionally_compile


@workload(
    axes=[
        Axis("height", [7, 16]),
        Axis("width", [16, 9]),
        Axis("text_len", [77, 0, 4]),
        Axis("batch", [1]),
    ],
    targets=["TransformerBlock.forward"],
)
def mammoth_moda2(  # noqa: PLR0913 (each is a --set of the command)
    *,
    device: str = "cpu",
    size: str = "tiny",
    attention: str = "sdpa",
    masks: str = "auto",
    dynamic: bool | None = True,
    fullgraph: bool = True,
    remedies: str = "none",
    backend: str = "eager",
) -> Callable[..., object]:
    """Build and compile; heights and widths are patches, so 64 is 1024 pixels."""
    model = build(size, device=device, attention_backend=attention, mask_publishing=masks)
    if remedies == "marks":
        leave_sizes_free(model)
    elif remedies == "settings":
        # Sizes 0 and 1 are sizes like others, and two sizes that are equal by chance stay two.
        shapes.backed_size_oblivious = True
        shapes.use_duck_shape = False
    regionally_compile(model, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    model.requires_grad_(requires_grad=False)
    freqs_cis = tables(model, device)

    def call(height: int, width: int, text_len: int, batch: int) -> object:
        return model(**inputs(model, Size(height, width, text_len, batch, device=device), freqs_cis))

    return call
