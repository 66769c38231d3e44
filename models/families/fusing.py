"""Fuse the attention of a model: other attention processors, and a table packed once a forward.

A hook before each block replaces the model's rotary embedding by a :class:`models.families.processors.Rotary`, whose
table all blocks of a forward share. The hook knows the tokens of each stream, which the embedding alone does not, and
it is outside the graph of a block that :func:`models.regional.regionally_compile` compiled. (diffusers' own
``compile_repeated_blocks`` takes hooks into the graph: there every block packs its table, and nothing else differs.)
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

from fused_ops import Call, Decision, Gate, Repeats, decide, rope_table
from models.families.processors import Fused, Rotary

if TYPE_CHECKING:
    from torch.utils.hooks import RemovableHandle

    from models.families.recipe import Frequencies, Processor, Recipe, Streams

_FUSION: Final = "_families_fusion"
_MOST_TABLES: Final = 8


@dataclass(frozen=True, slots=True)
class _Fusion:
    """What :func:`unfuse` undoes."""

    replaced: tuple[tuple[Any, Processor], ...]
    hooks: tuple[RemovableHandle, ...]


def fuse(model: torch.nn.Module, recipe: Recipe, *, joint: bool = True, stand_in: bool = False) -> int:
    """Replace the attention processors of ``model``, built or loaded by anyone, until :func:`unfuse`.

    A layer whose processor is none of the recipe's (an IP adapter's, a key-value cache's) keeps it. So does, call by
    call, what the gates refuse: see :func:`fused_ops.decide` and ``Fused._fuses``. Fuse after
    :meth:`set_attention_backend` or before, and with LoRA on the projections or without.

    Args:
        model: of the recipe's family.
        recipe: the family's.
        joint: use the joint op for two streams; otherwise the per-stream op twice, and concatenate.
        stand_in: also fuse where no kernel runs (a CPU, ``meta``). The op then computes its reference: the graph is
            the one that a GPU would have.

    Returns:
        How many attention layers were fused.

    Raises:
        ValueError: the model is fused already, or has no layer that the recipe knows.
    """
    if _FUSION in vars(model):
        msg = f"this {type(model).__name__} is fused already; unfuse it first"
        raise ValueError(msg)
    known = recipe.processors()
    packer = _Packer(recipe, stand_in=stand_in)
    replaced: list[tuple[Any, Processor]] = []
    hooks: list[RemovableHandle] = []
    for block in model.modules():
        streams = recipe.blocks.get(type(block).__name__)
        attention: Any = None if streams is None else getattr(block, streams.attention, None)
        replacement = known.get(type(getattr(attention, "processor", None)).__name__)
        if streams is None or replacement is None:
            continue
        replaced.append((attention, attention.processor))
        attention.set_processor(replacement(attention.processor, joint))
        # First, so that whoever hooks a block later sees the table too.
        hook = _Hook(packer, streams, type(block))
        hooks.append(block.register_forward_pre_hook(hook, with_kwargs=True, prepend=True))
    if not replaced:
        msg = f"{type(model).__name__} has no attention layer with one of the processors {', '.join(known)}"
        raise ValueError(msg)
    hooks.append(model.register_forward_hook(packer.forget, always_call=True))
    vars(model)[_FUSION] = _Fusion(tuple(replaced), tuple(hooks))
    return len(replaced)


def unfuse(model: torch.nn.Module) -> None:
    """Put the eager processors back and remove the hooks.

    Raises:
        ValueError: the model is not fused.
    """
    fusion: _Fusion | None = vars(model).pop(_FUSION, None)
    if fusion is None:
        msg = f"this {type(model).__name__} is not fused"
        raise ValueError(msg)
    for hook in fusion.hooks:
        hook.remove()
    for attention, eager in fusion.replaced:
        # Whoever replaced the fused processor since meant to.
        if isinstance(attention.processor, Fused):
            attention.set_processor(eager)


class _Packer:
    """Packs a table for each rotary embedding of a forward, and forgets them when it ends."""

    def __init__(self, recipe: Recipe, *, stand_in: bool) -> None:
        self.recipe = recipe
        self.stand_in = stand_in
        # By identity of the embedding and the sizes; the embedding is kept, so that no other takes its identity.
        self.packed: dict[tuple[Any, ...], tuple[Any, Rotary | None]] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> _Packer:
        """Share no table with a copy of the model."""
        memo[id(self)] = copy = _Packer(self.recipe, stand_in=self.stand_in)
        return copy

    def rotary(self, plain: Any, streams: list[torch.Tensor]) -> Rotary | None:  # noqa: ANN401 (the family's)
        """Return the table of these streams, or None where they stay eager."""
        tokens = tuple(x.shape[1] for x in streams)
        if torch.compiler.is_compiling():  # diffusers' compile_repeated_blocks: a graph keeps nothing
            return self._pack(plain, streams[0], tokens)
        # A table serves blocks of two streams and of one: whoever concatenates, the rows are the same.
        key = (id(plain), streams[0].dtype, streams[0].shape[0], sum(tokens))
        found = self.packed.get(key)
        if found is None:
            if len(self.packed) >= _MOST_TABLES:  # blocks called outside of the model's forward
                self.packed.clear()
            self.packed[key] = found = (plain, self._pack(plain, streams[0], tokens))
        return found[1]

    def forget(self, *_: object) -> None:
        """Let go of the tables."""
        self.packed.clear()

    def _pack(self, plain: Any, x: torch.Tensor, tokens: tuple[int, ...]) -> Rotary | None:  # noqa: ANN401
        batch = x.shape[0]
        found = self.recipe.frequencies(plain, tokens)
        if not self._decide(found, x, batch * sum(tokens)).fused:
            return None
        table = rope_table(
            found.cos,
            found.sin,
            repeats=found.repeats,
            batch=1 if found.cos.dim() == len("BSR") else batch,
            identity_rows=found.identity_rows,
        )
        # A tensor of its own: a view would be another graph (up to torch 2.14). A graph that packs has no use for it.
        return Rotary(plain, table if torch.compiler.is_compiling() else table.clone())

    def _decide(self, found: Frequencies, x: torch.Tensor, tokens: int) -> Decision:
        """Say whether calls with ``tokens`` over all streams and the batch are fused. All of a head is rotated."""
        head_dim = found.cos.shape[-1] * (2 if found.repeats is Repeats.NONE else 1)
        device = "cuda" if self.stand_in else x.device.type
        call = Call(device, x.dtype, torch.float32, head_dim, head_dim)
        return decide(call, Gate((tokens,), self.recipe.min_tokens))


class _Hook:
    """Hands a block its table in place of its rotary embedding."""

    def __init__(self, packer: _Packer, streams: Streams, block: type[torch.nn.Module]) -> None:
        self.packer = packer
        self.streams = streams
        names = list(inspect.signature(block.forward).parameters)[1:]
        self.place = {name: place for place, name in enumerate(names)}

    def __call__(
        self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """Return the arguments with the table, or None to leave them."""
        name = self.streams.rotary
        plain = self._argument(name, args, kwargs)
        if plain is None:
            return None
        given = (self._argument(one, args, kwargs) for one in self.streams.order)
        rotary = self.packer.rotary(plain, [x for x in given if x is not None])
        if rotary is None:
            return None
        if name in kwargs:
            return args, {**kwargs, name: rotary}
        place = self.place[name]
        return (*args[:place], rotary, *args[place + 1 :]), kwargs

    def _argument(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        place = self.place[name]
        return args[place] if place < len(args) else kwargs.get(name)
