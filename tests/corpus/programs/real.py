"""What models of diffusers and transformers, and the decorators around them, met in real use."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..expectation import Cause, Change, expects

if TYPE_CHECKING:
    from collections.abc import Callable


def scales_adapters(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(forward)
    def wrapper(self: nn.Module, *args: Tensor, **kwargs: Tensor) -> Tensor:
        return forward(self, *args, **kwargs)

    return wrapper


class FastProcessor:
    def __call__(self, tokens: Tensor) -> Tensor:
        return tokens.tanh()


class PlainProcessor:
    def __call__(self, tokens: Tensor) -> Tensor:
        return tokens.sigmoid()


class Encoding(nn.Module):
    @scales_adapters
    def forward(self, tokens: Tensor) -> Tensor:
        return tokens - 1


class Denoising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.processors: list[Callable[[Tensor], Tensor]] = [FastProcessor() for _ in range(5)]

    @scales_adapters
    def forward(self, tokens: Tensor) -> Tensor:
        for processor in self.processors:
            tokens = processor(tokens)  # here: processor
        return tokens


SHARED = "scales_adapters.<locals>.wrapper"


@expects(
    compiles={SHARED: 3},
    recompiles=(
        Cause(
            code=SHARED,
            kind="module_type",
            source="self",
            names=("Encoding", "Denoising"),
            shape_driven=False,
            beside=(Change(kind="function_id", source="forward"),),
        ),
        Cause(
            code=SHARED,
            kind="type",
            source="self.processors[0]",
            also=tuple(f"self.processors[{index}]" for index in range(1, 5)),
            names=("FastProcessor", "PlainProcessor"),
            line="processor",
            places=5,
            shape_driven=False,
        ),
    ),
)
def every_processor_of_one_of_two_models_is_replaced() -> None:
    encoding, denoising = Encoding(), Denoising()
    for model in (encoding, denoising):
        model.compile(backend="eager")
    tokens = torch.ones(4)
    encoding(tokens)
    denoising(tokens)
    denoising.processors = [PlainProcessor() for _ in range(5)]
    denoising(tokens)


class LayerCache:
    def __init__(self) -> None:
        self.filled = False
        self.keys: Tensor | None = None

    def extend(self, new: Tensor) -> Tensor:
        if not self.filled:  # here: filled
            self.keys, self.filled = new, True
        else:
            self.keys = torch.cat([self.keys, new], 1)  # here: extended
        return self.keys


def decode(tokens: Tensor, caches: list[LayerCache]) -> Tensor:
    for cache in caches:
        tokens = tokens - cache.extend(tokens).mean(1, keepdim=True)
    return tokens


LAYERS = range(6)


@expects(
    compiles={"decode": 4},
    recompiles=(
        Cause(
            code="decode",
            kind="attr_changed",
            source="caches[0].filled",
            also=tuple(f"caches[{layer}].filled" for layer in LAYERS[1:]),
            expected="False",
            actual="True",
            line="filled",
            places=6,
            shape_driven=False,
            beside=(Change(kind="zero_one", source="tokens.size()[1]", expected=">= 2", actual="1"),),
        ),
        Cause(
            code="decode",
            kind="zero_one",
            source="tokens.size()[0]",
            expected="1",
            actual="2",
            places=1,
            shape_driven=True,
        ),
        Cause(
            code="decode",
            kind="zero_one",
            source="tokens.size()[0]",
            also=tuple(f"caches[{layer}].keys.size()[0]" for layer in LAYERS),
            expected="1",
            actual="2",
            places=7,
            shape_driven=True,
        ),
    ),
)
def decoding_goes_on_with_two_sequences() -> None:
    compiled = torch.compile(decode, backend="eager", dynamic=True)
    for batch in (1, 2):
        caches = [LayerCache() for _ in LAYERS]
        for tokens in (5, 1, 1, 1):
            compiled(torch.ones(batch, tokens, 3), caches)


@functools.cache
def autoencoder() -> nn.Module:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(4, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=3,
        norm_num_groups=2,
        sample_size=16,
    ).eval()


@expects(
    compiles={"Decoder.forward": 3},
    recompiles=(
        Cause(
            code="Decoder.forward",
            kind="duck_size",
            source="sample.size()[2], sample.size()[3]",
            names=("6", "10"),
            shape_driven=True,
        ),
        Cause(code="Decoder.forward", kind="zero_one", source="sample.size()[0]", actual="1", shape_driven=True),
    ),
)
def decoder_of_an_autoencoder_meets_a_batch_of_one() -> None:
    model = autoencoder()
    model.decoder.compile(backend="eager", dynamic=True)
    with torch.no_grad():
        for batch, height, width in ((2, 6, 6), (2, 6, 10), (2, 12, 12), (1, 6, 6)):
            model.decode(torch.ones(batch, 3, height, width))


MIXTURE = "can_return_tuple.<locals>.wrapper"


@expects(
    compiles={MIXTURE: 2},
    recompiles=(
        Cause(
            code=MIXTURE,
            kind="size",
            source="args[0].size()[0]",
            expected="1",
            actual="3",
            shape_driven=True,
        ),
    ),
)
def batch_of_a_mixture_of_experts_is_pinned() -> None:
    from torch.fx.experimental import _config as shape_config
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MixtralConfig(
        **sizes,
        num_key_value_heads=1,
        vocab_size=37,
        max_position_embeddings=64,
        num_local_experts=3,
        num_experts_per_tok=2,
    )
    model = MixtralForCausalLM(config).eval()
    with torch.no_grad(), shape_config.patch(backed_size_oblivious=True):
        compiled = torch.compile(model, backend="eager", dynamic=True)
        for batch, tokens in ((1, 6), (1, 10), (3, 10), (3, 13)):
            compiled(torch.ones(batch, tokens, dtype=torch.long), use_cache=False)


ENCODER = "merge_with_config_defaults.<locals>.wrapper"


@expects(
    compiles={ENCODER: 4},
    recompiles=(
        Cause(
            code=ENCODER,
            kind="size",
            source="kwargs['input_ids'].size()[1]",
            expected="5",
            actual="8",
            shape_driven=True,
        ),
        Cause(code=ENCODER, kind="dict_keys", source="kwargs", names=("'attention_mask'",), shape_driven=False),
        Cause(
            code=ENCODER,
            kind="size",
            source="kwargs['input_ids'].size()[0]",
            also=("kwargs['attention_mask'].size()[0]",),
            expected="2",
            actual="3",
            shape_driven=True,
        ),
    ),
)
def mask_is_given_to_a_text_encoder() -> None:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model = BertModel(BertConfig(**sizes, vocab_size=41, max_position_embeddings=48)).eval()
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        for batch, tokens, masked in ((2, 5, False), (2, 8, False), (2, 11, True), (3, 11, True), (2, 14, False)):
            words = torch.ones(batch, tokens, dtype=torch.long)
            compiled(input_ids=words, **({"attention_mask": torch.ones_like(words)} if masked else {}))
