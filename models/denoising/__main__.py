"""``python -m models.denoising``: compare eager and compiled denoising, and print what it costs and changes."""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, get_args

import click
import msgspec
import torch
from rich.console import Console

from compilescope.errors import CompilescopeError
from compilescope.files import write_atomically
from models.attention import BackendName
from models.denoising.compare import run_arms
from models.denoising.loop import Request
from models.denoising.report import WIDTH, costs, distances, notes
from models.denoising.results import Remedies, Settings
from models.mammoth_moda2 import PRESETS, Transformer2DModel, build

if TYPE_CHECKING:
    from collections.abc import Sequence

DTYPES: Final = ("float32", "bfloat16", "float16")
_DEFAULT: Final = {"height": 256, "width": 256, "text_len": 77}
_OWN_OPTIONS: Final = {"attention_backend": "--attention", "fused_qk_norm_rope": "--fused/--no-fused"}


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--size", type=click.Choice(list(PRESETS)), default="tiny", show_default=True, help="Preset of the model."
)
@click.option("--height", type=int, help="Pixels, a multiple of 16.  [default: 256]")
@click.option("--width", type=int, help="Likewise.  [default: 256]")
@click.option("--text-len", type=int, help="Text tokens.  [default: 77]")
@click.option("--request", "sizes", multiple=True, metavar="HxWxT", help="In place of the three; may be given again.")
@click.option("--steps", type=int, default=50, show_default=True, help="Denoising steps of a run.")
@click.option("--guidance", type=float, default=9.0, show_default=True, help="Up to 1: one forward a step.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of noise and text.")
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda or cuda:N.")
@click.option("--dtype", type=click.Choice(DTYPES), default="float32", show_default=True, help="Of the weights.")
@click.option("--backend", type=click.Choice(["inductor", "eager", "aot_eager"]), default="inductor", show_default=True)
@click.option("--attention", type=click.Choice(get_args(BackendName)), default="sdpa", show_default=True)
@click.option(
    "--fused/--no-fused", default=True, help="Whether the fused norm and rotation may be used.  [default: on]"
)
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="A setting of the model; JSON or text.")
@click.option("--remedies", type=click.Choice(get_args(Remedies)), default="none", show_default=True)
@click.option("--inductor", multiple=True, metavar="NAME=VALUE", help="An option of Inductor; JSON or text.")
@click.option("--control", is_flag=True, help="Also run the eager model with its norms' sums in another order.")
@click.option("--repeat", type=int, default=1, show_default=True, help="Rounds of A B B A.")
@click.option("--warmup", type=int, default=1, show_default=True, help="Steps of every turn that are not counted.")
@click.option("--json", "output", type=click.Path(dir_okay=False, path_type=Path), help="Also write everything here.")
def main(output: Path | None, **given: Any) -> None:  # noqa: ANN401 (click hands every option over by its name)
    """Denoise the same requests eager and compiled, in turns, and print two tables.

    Exits 1 if an arm raised, 2 if the options make no sense.
    """
    if output is not None and not output.absolute().parent.is_dir():
        msg = f"{output.parent} is no folder."
        raise click.BadParameter(msg, param_hint="--json")
    try:
        requests = _requests(given)
        settings = Settings(
            backend=given["backend"],
            control=given["control"],
            remedies=given["remedies"],
            compile_options=_inductor(given),
            rounds=given["repeat"],
            warmup=given["warmup"],
        )
        found = run_arms(_model(given), requests, settings)
    except ValueError as error:
        _refuse(error)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(costs(found), distances(found))
    for line in notes(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if output is not None:
        try:
            write_atomically(output, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        except CompilescopeError as error:
            raise click.ClickException(str(error)) from None
    raise SystemExit(1 if found.errors else 0)


def _refuse(error: Exception) -> NoReturn:
    """Turn what was refused into a usage error: its first line, as a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    msg = f"{lines[0][:1].upper()}{lines[0][1:].rstrip('.')}."
    raise click.UsageError(msg) from None


def _requests(given: dict[str, Any]) -> list[Request]:
    """Read the requests.

    Raises:
        ValueError: a request is out of range.
    """
    sizes: Sequence[str] = given["sizes"]
    single = {name: given[name] for name in _DEFAULT if given[name] is not None}
    if sizes and single:
        msg = "--request stands in place of --height, --width and --text-len."
        raise click.UsageError(msg)
    shared = {name: given[name] for name in ("steps", "guidance", "seed")}
    if not sizes:
        return [Request(**{**_DEFAULT, **single}, **shared)]
    found = [re.fullmatch(r"(\d+)x(\d+)x(\d+)", text, re.ASCII) for text in sizes]
    for text, match in zip(sizes, found, strict=True):
        if match is None:
            msg = f"{text!r} is not HEIGHTxWIDTHxTEXT_LEN, such as 1024x768x77."
            raise click.BadParameter(msg, param_hint="--request")
    return [Request(*(int(part) for part in match.groups()), **shared) for match in found if match is not None]


def _model(given: dict[str, Any]) -> Transformer2DModel:
    settings = dict(_assignment(text) for text in given["assignments"])
    settings |= {"attention_backend": given["attention"], "fused_qk_norm_rope": given["fused"]}
    device = _device(given["device"])
    try:
        return build(given["size"], device=device, dtype=getattr(torch, given["dtype"]), **settings)
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        # The settings are the user's, and what a module raises at a senseless one is any of these.
        msg = f"the model cannot be built: {error}"
        _refuse(ValueError(msg))


def _device(name: str) -> str:
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", name, re.ASCII)
    problem = None
    if match is None:
        problem = f"{name!r} is not cpu, cuda or cuda:N."
    elif name != "cpu" and int(match[1] or 0) >= torch.cuda.device_count():
        problem = f"{name} is not there: torch finds {torch.cuda.device_count()} CUDA devices."
    if problem is not None:
        raise click.BadParameter(problem, param_hint="--device")
    return name


def _assignment(text: str) -> tuple[str, Any]:
    """Read ``NAME=VALUE``: JSON where it is JSON, else text."""
    name, equals, value = text.partition("=")
    known = [p for p in inspect.signature(Transformer2DModel.__init__).parameters if p != "self"]
    problem = None
    if not equals:
        problem = f"{text!r} is not NAME=VALUE."
    elif name in _OWN_OPTIONS:
        problem = f"{name} has an option of its own, {_OWN_OPTIONS[name]}."
    elif name not in known:
        problem = f"{name!r} is no setting of the model; there are {', '.join(known)}."
    if problem is not None:
        raise click.BadParameter(problem, param_hint="--set")
    return name, _value(value)


def _value(text: str) -> Any:  # noqa: ANN401 (any JSON)
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _inductor(given: dict[str, Any]) -> dict[str, Any]:
    """Read Inductor's options as keyword arguments of ``torch.compile``, none if there are none."""
    parts = [text.partition("=") for text in given["inductor"]]
    problem = None
    if parts and given["backend"] != "inductor":
        problem = f"the backend {given['backend']} has no options of Inductor's."
    elif wrong := [name for name, equals, _ in parts if not equals]:
        problem = f"{wrong[0]!r} is not NAME=VALUE."
    if problem is not None:
        raise click.BadParameter(problem, param_hint="--inductor")
    return {"options": {name: _value(value) for name, _, value in parts}} if parts else {}


if __name__ == "__main__":
    main()
