"""Regional compilation: a model's repeated blocks are compiled one by one, and everything around them stays eager.

Only ``forward`` is compiled, and never ``__call__``: hooks of ``torch.nn.Module`` run outside the graph, and
so do diffusers' hooks, because what is compiled is the forward that they wrap. All blocks of a class share one code
object, so ``compilescope.observe(["Block.forward"])`` sees them all.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    Forward = Callable[..., Any]

_WRAPPED: Final = ("_fsdp_wrapped_module", "module", "_orig_mod")
_REGION: Final = "_regional_forward"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Region:
    """What a block's forward was and what replaced it; the block itself keeps it, beside its parameters.

    So it follows the block into a deep copy, where ``original`` is bound to the copy.
    """

    original: Forward
    compiled: Forward


def regionally_compile(model: torch.nn.Module, *, strict: bool = False, **compile_kwargs: Any) -> int:  # noqa: ANN401 (torch.compile's)
    """Compile the forward of every repeated block in place; called again, replace what the last call compiled.

    ``state_dict`` keeps its keys, but a compiled model cannot be pickled, and a deep copy shares the compiled forwards:
    its blocks compute with the *old* model's weights until this function or :func:`restore_eager` is called on the
    copy. Where diffusers' hooks wrap a block not even that helps, as a copy shares them too: build a second model.

    Args:
        model: declares ``_repeated_blocks`` (class names); may declare ``_layerwise_offload_blocks_attrs`` (lists
            whose items are blocks of any class) and ``_regional_compile_inductor_options`` (under ``options``).
        strict: raise where nothing is found to compile, instead of a warning.
        compile_kwargs: for ``torch.compile``. Each block gets a copy of ``options`` of its own.

    Returns:
        How many modules were compiled.

    Raises:
        ValueError: nothing to compile and ``strict``, or both a ``mode`` and options.
        TypeError: options, the caller's or the model's, are neither a dict nor None.
        RuntimeError: somebody replaced the forward of a compiled block. As after any error, nothing has changed.
    """
    names = list(getattr(model, "_repeated_blocks", None) or ())
    if not names:
        return _skip("the model does not define `_repeated_blocks`", strict=strict)
    blocks = _blocks(model, names)
    if not blocks:
        return _skip(f"{names} classes are not found in the model", strict=strict)
    settings = _settings(model, compile_kwargs)
    for block, region in [(block, _build(block, settings)) for block in blocks]:  # all are built before one is changed
        _put(block, region.compiled)
        vars(block)[_REGION] = region
    logger.info("Regional compilation applied to %d module(s) for repeated blocks %s.", len(blocks), names)
    return len(blocks)


def restore_eager(model: torch.nn.Module) -> int:
    """Give every compiled block its original forward back, whatever ``_repeated_blocks`` says by now.

    Returns:
        How many modules were restored.

    Raises:
        RuntimeError: somebody replaced the forward of a compiled block; nothing has changed.
    """
    reachable = dict.fromkeys(inner for module in model.modules() for inner in _chain(module))
    originals = [(module, _original(module)) for module in reachable if _REGION in vars(module)]
    for module, original in originals:
        _put(module, original)
        del vars(module)[_REGION]
    return len(originals)


def _skip(reason: str, *, strict: bool) -> int:
    if strict:
        msg = f"Regional compilation skipped because {reason}."
        raise ValueError(msg)
    logger.warning("Regional compilation skipped because %s.", reason)
    return 0


def _blocks(model: torch.nn.Module, names: Collection[str]) -> list[torch.nn.Module]:
    """Return the modules to compile, each once.

    Every name of a shared module is looked at, since only one of them may lie in a declared list.
    """
    lists = getattr(model, "_layerwise_offload_blocks_attrs", None) or ()
    found: dict[torch.nn.Module, None] = {}
    for path, module in model.named_modules(remove_duplicate=False):
        chain = _chain(module)
        listed = [inner for inner in chain if _class_name(inner) in names]
        parent, _, leaf = path.rpartition(".")
        if listed:
            found[listed[-1]] = None
        elif leaf.isdecimal() and parent.rpartition(".")[2] in lists:
            found[chain[-1]] = None
    return list(found)


def _class_name(module: torch.nn.Module) -> str:
    """Return the name of a module's class; of one that FSDP2's ``fully_shard`` derived, the name of what it was."""
    bases = type(module).__bases__
    sharded = bases[0].__name__ == "FSDPModule"
    return (bases[-1] if sharded else type(module)).__name__


def _chain(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the module and what it wraps, outermost first.

    Of a wrapper and its block, the block is compiled and never the wrapper. What the wrapper does (gather shards, run
    hooks, move weights) is no work for a graph, and the block, which ``named_modules`` mostly visits by itself too,
    would be compiled a second time inside it.
    """
    chain = [module]
    while True:
        children = (getattr(chain[-1], name, None) for name in _WRAPPED)
        child = next((child for child in children if isinstance(child, torch.nn.Module)), None)
        if child is None or child in chain:
            return chain
        chain.append(child)


def _settings(model: torch.nn.Module, given: dict[str, Any]) -> dict[str, Any]:
    settings = dict(given)
    options = _checked("options", settings.pop("options", None))
    default = getattr(torch.compiler, "get_default_backend", lambda: "inductor")  # old torches have no other default
    if (settings.get("backend") or default()) == "inductor":
        name = "_regional_compile_inductor_options"
        options = _checked(name, getattr(model, name, None)) | options
    if settings.get("mode") in (None, "default"):
        settings.pop("mode", None)  # what torch.compile does without one, and it refuses even this beside options
    if options and "mode" in settings:
        msg = f"torch.compile takes a mode or options, not both: mode={settings['mode']!r} and options={options!r}"
        raise ValueError(msg)
    return {**settings, "options": options} if options else settings


def _checked(name: str, options: object) -> dict[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, dict):
        msg = f"{name} must be a dict or None, not {options!r}"
        raise TypeError(msg)
    return options


def _build(block: torch.nn.Module, settings: dict[str, Any]) -> _Region:
    """Compile, changing nothing yet. The options are copied because torch.compile removes entries from its dict."""
    own = {**settings, "options": dict(settings["options"])} if "options" in settings else settings
    original = _original(block)
    return _Region(original, torch.compile(original, **own))


def _original(block: torch.nn.Module) -> Forward:
    """Return the forward as it was before any regional compilation.

    Raises:
        RuntimeError: neither the original nor its replacement is in its place. Whatever is there may call the compiled
            forward; to compile that would wrap one compiled forward in another, to remove it would lose it.
    """
    holder, name = _slot(block)
    current: Forward = getattr(holder, name)
    region: _Region | None = vars(block).get(_REGION)
    if region is None:
        return current
    if current not in (region.original, region.compiled):
        msg = f"the compiled forward of {type(block).__name__} was replaced by another one; put it back first"
        raise RuntimeError(msg)
    return region.original


def _put(block: torch.nn.Module, forward: Forward) -> None:
    holder, name = _slot(block)
    inherited = isinstance(forward, MethodType) and forward == MethodType(type(block).forward, block)
    if holder is block and inherited:
        vars(block).pop(name, None)  # without an entry of its own the block pickles and copies as it did at first
    else:
        setattr(holder, name, forward)


def _slot(block: torch.nn.Module) -> tuple[object, str]:
    """Return which attribute of what holds the block's innermost forward.

    A hook of diffusers replaces ``module.forward``. The first one registered is the innermost, and it calls what it
    found: ``original_forward`` if it has a ``new_forward`` of its own, ``forward`` otherwise.
    """
    references = getattr(getattr(block, "_diffusers_hook", None), "_fn_refs", None)
    if not references:
        return block, "forward"
    return references[0], "forward" if references[0].original_forward is None else "original_forward"
