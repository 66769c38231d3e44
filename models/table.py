"""``python -m models.table``: how often each family's blocks compile, stock, fused, and with their sizes left free."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import torch
from torch._dynamo import config as dynamo

import compilescope
from compilescope.files import write_atomically
from models.families import FAMILIES, FUSED, Size
from models.families.workloads import prepare
from models.regional import regionally_compile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from compilescope.record import Recording
    from models.families import Family

ARMS: Final[dict[str, dict[str, Any]]] = {
    "stock": {"fused": False},
    "fused": {"fused": True},
    "fused+remedies": {"fused": True, "remedies": "marks"},
}
RESOLUTIONS: Final = ((3, 7), (5, 7), (7, 5), (6, 6))
# A text first that is not empty: a graph for an empty one, made first, serves no other.
TEXTS: Final = (7, 0, 1, 77)
BATCHES: Final = (2, 1)
# More than any arm needs, so that what it needs is counted.
_LIMIT: Final = 64


@dataclass(frozen=True)
class Row:
    """What one class of blocks costs over the sweep.

    Attributes:
        family, arm, block: which.
        compilations: of the block's forward.
        causes: of its recompiles: ``kind source``, and how many recompiles name it.
        breaks: sites at which its graphs break.
        parity: largest difference of the arm's outputs from diffusers' own eager forward, over the largest output.
    """

    family: str
    arm: str
    block: str
    compilations: int
    causes: dict[str, int]
    breaks: int
    parity: float


def sizes(family: Family) -> Iterator[Size]:
    """Yield the points of the sweep: every text at every resolution and batch."""
    for (height, width), text_len, batch in itertools.product(RESOLUTIONS, TEXTS, BATCHES):
        if text_len or family.empty_text:
            yield Size(height, width, text_len, batch)


def measure(name: str, arm: str, *, backend: str = "eager") -> list[Row]:
    """Run the sweep of one family in one arm, from an empty cache, which is left empty.

    Raises:
        KeyError: there is no such family or arm.
        RuntimeError: this torch cannot leave sizes free.
    """
    family = FAMILIES[name]
    model, eager = family.build(), family.build()
    prepare(family, model, **ARMS[arm])
    regionally_compile(model, strict=True, backend=backend, dynamic=True)
    parity = 0.0
    torch.compiler.reset()
    with dynamo.patch(recompile_limit=_LIMIT), compilescope.observe([f"{b}.forward" for b in family.blocks]) as scope:
        for size in sizes(family):
            expected = family.call(eager, size)
            difference = (family.call(model, size) - expected).abs().max() / expected.abs().max()
            parity = max(parity, float(difference))
    torch.compiler.reset()
    return [_row(scope.recording, name, arm, block, parity) for block in family.blocks]


def _row(recording: Recording, name: str, arm: str, block: str, parity: float) -> Row:
    suffix = f":{block}.forward"
    causes = Counter(
        cause
        for one in recording.recompiles
        if one.code.endswith(suffix) and one.recompile is not None
        for cause in sorted({f"{found.kind} {found.source}" for found in one.recompile.causes})
    )
    return Row(
        family=name,
        arm=arm,
        block=block,
        compilations=sum(one.code.endswith(suffix) for one in recording.compiled),
        causes=dict(causes),
        breaks=sum(one.code.endswith(suffix) for one in recording.graph_breaks),
        parity=parity,
    )


def markdown(rows: Sequence[Row]) -> str:
    """Return the rows as a table."""
    lines = ["| family | arm | block | compilations | causes | breaks | parity |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        causes = ", ".join(f"{cause} x{count}" for cause, count in row.causes.items())
        cells = (row.family, row.arm, row.block, row.compilations, causes, row.breaks, f"{row.parity:.1e}")
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--family", "families", multiple=True, type=click.Choice(FUSED), help="These alone.  [default: all]")
@click.option("--arm", "arms", multiple=True, type=click.Choice(list(ARMS)), help="These alone.  [default: all]")
@click.option("--backend", type=click.Choice(["eager", "aot_eager", "inductor"]), default="eager", show_default=True)
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path), help="Also write the rows here.")
def main(families: tuple[str, ...], arms: tuple[str, ...], backend: str, output: Path | None) -> None:
    """Sweep the tiny models on a CPU and print how often each class of blocks compiles, and why.

    The sweep is four resolutions, texts of 7, 0 (where the model takes it), 1 and 77 tokens, two images and one, under
    dynamic=True.
    """
    rows = [
        row for name in families or FUSED for arm in arms or tuple(ARMS) for row in measure(name, arm, backend=backend)
    ]
    click.echo(markdown(rows))
    if output is not None:
        write_atomically(output, f"{json.dumps([asdict(row) for row in rows], indent=2)}\n".encode())


if __name__ == "__main__":
    main()
