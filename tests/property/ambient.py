"""What surrounds a call: grad mode, autocast, default dtype and device, threads, modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st

from .parts import Change, Part, choice, texts

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from .parts import Ground

_GRADIENTS: Final = frozenset({"grad mode", "inference mode"})
_SETTING: Final = """
@contextlib.contextmanager
def setting_{short}(value):
    before = torch.get_{long}()
    torch.set_{long}(value)
    try:
        yield
    finally:
        torch.set_{long}(before)
"""
_DETERMINISTIC: Final = """
@contextlib.contextmanager
def setting_deterministic(value):
    torch.use_deterministic_algorithms(value)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
"""
_DEVICE: Final = """
@contextlib.contextmanager
def setting_device(value):
    torch.set_default_device(value)
    try:
        yield
    finally:
        torch.set_default_device(None)
"""
_MODE: Final = """
class Watched(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
"""


def ambient(draw: DrawFn, ground: Ground) -> Part:
    """A state of torch that is another around the second call. Nothing in the program asks for it; torch guards it."""
    return draw(st.sampled_from([_grad, _autocast, _dtype, _threads, _deterministic, _device, _mode, _inference]))(
        draw, ground
    )


def _part(
    ground: Ground,
    sort: str,
    context: str,
    kind: str,
    source: str,
    before: object,
    after: object,
    definitions: str = "",
    *,
    told: bool = True,
) -> Part:
    return Part(
        name=ground.name,
        sort=sort,
        change=Change(
            kinds=frozenset({kind}),
            sources=frozenset({source}),
            expected=texts(before) if told else None,
            actual=texts(after) if told else None,
        ),
        told=f"{sort}: {before} -> {after}",
        context=context,
        definitions=definitions,
        brings=frozenset({sort}),
        # Two of one sort would undo each other, and inference mode sets the grad mode too.
        avoids=_GRADIENTS if sort in _GRADIENTS else frozenset({sort}),
    )


def _flip(draw: DrawFn, ground: Ground) -> tuple[bool, bool, str]:
    before = draw(st.booleans())
    return before, not before, choice(str(before), str(not before), ground.name)


def _grad(draw: DrawFn, ground: Ground) -> Part:
    before, after, value = _flip(draw, ground)
    return _part(ground, "grad mode", f"torch.set_grad_enabled({value})", "global_state", "grad_mode", before, after)


def _autocast(draw: DrawFn, ground: Ground) -> Part:
    before, after, value = _flip(draw, ground)
    context = f'torch.autocast("cpu", enabled={value})'
    return _part(ground, "autocast", context, "global_state", "autocast_state", before, after, told=False)


def _dtype(draw: DrawFn, ground: Ground) -> Part:
    before, after = draw(st.permutations(["torch.float32", "torch.float64"]))
    context = f"setting_dtype({choice(before, after, ground.name)})"
    definitions = _SETTING.format(short="dtype", long="default_dtype")
    return _part(ground, "default dtype", context, "global_state", "default_dtype", before, after, definitions)


def _threads(draw: DrawFn, ground: Ground) -> Part:
    before, after = draw(st.permutations([1, 2]))
    context = f"setting_threads({choice(str(before), str(after), ground.name)})"
    definitions = _SETTING.format(short="threads", long="num_threads")
    return _part(ground, "threads", context, "global_state", "num_threads", before, after, definitions)


def _deterministic(draw: DrawFn, ground: Ground) -> Part:
    before, after, value = _flip(draw, ground)
    context = f"setting_deterministic({value})"
    source = "deterministic_algorithms"
    return _part(ground, "deterministic", context, "global_state", source, before, after, _DETERMINISTIC)


def _device(draw: DrawFn, ground: Ground) -> Part:
    before, after = draw(st.permutations(["None", '"cpu"', '"meta"']))[:2]
    context = f"setting_device({choice(before, after, ground.name)})"
    return _part(
        ground, "default device", context, "default_device", "default device", before, after, _DEVICE, told=False
    )


def _mode(draw: DrawFn, ground: Ground) -> Part:
    before, after = draw(st.permutations(["contextlib.nullcontext()", "Watched()"]))
    context = choice(before, after, ground.name)
    kind, source = "torch_function_mode", "torch-function modes"
    return _part(ground, "function mode", context, kind, source, before, after, _MODE, told=False)


def _inference(draw: DrawFn, ground: Ground) -> Part:
    before, after, value = _flip(draw, ground)
    context = f"torch.inference_mode({value}), torch.no_grad()"
    return _part(ground, "inference mode", context, "global_state", "inference_mode", before, after)
