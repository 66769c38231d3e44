"""MammothModa2's diffusion transformer.

Text goes through a refiner without modulation, the noisy image and any reference images through
modulated refiners of their own; then one sequence, text first, through the main layers. Names of
modules and parameters are those of the published checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.modeling_utils import ModelMixin
from diffusers.models.normalization import LuminaLayerNormContinuous
from torch import nn

from models.attention import Geometry, make_attention
from models.mammoth_moda2.block import TransformerBlock
from models.mammoth_moda2.checks import MOST_REFERENCES, check_extent, check_inputs
from models.mammoth_moda2.embedding import WIDEST_CONDITION, TimestepCaptionEmbedding, patchify, unpatchify
from models.mammoth_moda2.rope import AxisTables, Grid, Rotary, look_up, text_positions, with_table
from models.mammoth_moda2.sequence import MaskPublishing, Sample, pad_rows, publish_mask, text_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from models.attention import AttentionMetadata, BackendName
    from models.mammoth_moda2.checks import References


@dataclass(frozen=True)
class Conditions:
    """What every stage of one forward needs.

    Attributes:
        samples: what each sample's sequence is made of.
        tables: rotary tables of the axes.
        temb: ``[B, min(hidden_size, 1024)]``, the embedded timesteps.
    """

    samples: Sequence[Sample]
    tables: AxisTables
    temb: torch.Tensor


class Transformer2DModel(ModelMixin, ConfigMixin):  # type: ignore[misc]  # diffusers' two bases disagree in type
    """The transformer; see the module.

    Args:
        patch_size: side of a patch in latent pixels.
        in_channels: of the latent.
        out_channels: of the prediction; ``in_channels`` if None.
        hidden_size: width.
        num_layers: main layers.
        num_refiner_layers: layers of each of the three refiners.
        num_attention_heads: query heads.
        num_kv_heads: key and value heads; divides the query heads.
        multiple_of: see :class:`TransformerBlock`.
        ffn_dim_multiplier: see :class:`TransformerBlock`.
        norm_eps: of the blocks' norms and of the text's.
        axes_dim_rope: a head's elements for position, row and column; together the head.
        axes_lens: how many positions, rows and columns there are tables for.
        text_feat_dim: width of the text encoder's states.
        timestep_scale: what a timestep is multiplied by before its embedding.
        attention_backend: see :func:`models.attention.make_attention`.
        mask_publishing: see :func:`publish_mask`.
        fused_qk_norm_rope: use the fused kernel where it can run.

    Raises:
        ValueError: the axes do not add up to a head, or the heads cannot be grouped.
    """

    _repeated_blocks = ["TransformerBlock"]  # noqa: RUF012 (diffusers' name and type)
    _no_split_modules = ["TransformerBlock"]  # type: ignore[assignment]  # noqa: RUF012

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(  # noqa: PLR0913 (a configuration)
        self,
        *,
        patch_size: int = 2,
        in_channels: int = 16,
        out_channels: int | None = None,
        hidden_size: int = 2304,
        num_layers: int = 26,
        num_refiner_layers: int = 2,
        num_attention_heads: int = 24,
        num_kv_heads: int = 8,
        multiple_of: int = 256,
        ffn_dim_multiplier: float | None = None,
        norm_eps: float = 1e-5,
        axes_dim_rope: tuple[int, ...] = (32, 32, 32),
        axes_lens: tuple[int, ...] = (300, 512, 512),  # noqa: ARG002 (a pipeline reads it from the config)
        text_feat_dim: int = 1024,
        timestep_scale: float = 1.0,
        attention_backend: BackendName = "sdpa",
        mask_publishing: MaskPublishing = "auto",
        fused_qk_norm_rope: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        head_dim = hidden_size // num_attention_heads
        if head_dim != sum(axes_dim_rope):
            msg = f"heads of {head_dim} elements cannot hold axes of {list(axes_dim_rope)}"
            raise ValueError(msg)
        self.patch_size = patch_size
        self.mask_publishing = mask_publishing
        self.fused_qk_norm_rope = fused_qk_norm_rope
        self.attention = make_attention(attention_backend, Geometry(num_attention_heads, num_kv_heads, head_dim))

        def blocks(count: int, *, modulation: bool) -> nn.ModuleList:
            return nn.ModuleList(
                TransformerBlock(
                    hidden_size,
                    num_attention_heads,
                    num_kv_heads,
                    multiple_of=multiple_of,
                    ffn_dim_multiplier=ffn_dim_multiplier,
                    norm_eps=norm_eps,
                    modulation=modulation,
                    attention=self.attention,
                )
                for _ in range(count)
            )

        patch_width = patch_size * patch_size
        self.x_embedder = nn.Linear(patch_width * in_channels, hidden_size)
        self.ref_image_patch_embedder = nn.Linear(patch_width * in_channels, hidden_size)
        self.time_caption_embed = TimestepCaptionEmbedding(hidden_size, text_feat_dim, norm_eps, timestep_scale)
        self.noise_refiner = blocks(num_refiner_layers, modulation=True)
        self.ref_image_refiner = blocks(num_refiner_layers, modulation=True)
        self.context_refiner = blocks(num_refiner_layers, modulation=False)
        self.layers = blocks(num_layers, modulation=True)
        self.norm_out = LuminaLayerNormContinuous(
            embedding_dim=hidden_size,
            conditioning_embedding_dim=min(hidden_size, WIDEST_CONDITION),
            elementwise_affine=False,
            eps=1e-6,
            out_dim=patch_width * (out_channels or in_channels),
        )
        self.image_index_embedding = nn.Parameter(torch.randn(MOST_REFERENCES, hidden_size) * 0.02)

    def forward(  # noqa: PLR0913 (the published model's arguments)
        self,
        hidden_states: torch.Tensor,
        timestep: torch.Tensor,
        text_hidden_states: torch.Tensor,
        freqs_cis: AxisTables,
        text_attention_mask: torch.Tensor | None = None,
        *,
        ref_image_hidden_states: References | None = None,
        return_dict: bool = False,
    ) -> torch.Tensor:
        """Predict the velocity of a latent.

        Args:
            hidden_states: ``[B, C, H, W]`` latent, in the model's dtype.
            timestep: ``[B]``.
            text_hidden_states: ``[B, T, text_feat_dim]``; ``T`` may be 0.
            freqs_cis: the tables of :func:`axis_tables`, on the latent's device.
            text_attention_mask: ``[B, T]``, true in front; None if no token is padding, which spares
                the host a wait.
            ref_image_hidden_states: for each sample its reference latents, ``[C, h, w]`` each.
            return_dict: refused; there is one output.

        Returns:
            ``[B, out_channels, H, W]``.

        Raises:
            ValueError: a shape does not fit, there are too many reference images, or a sequence is
                longer than the tables.
        """
        references = ref_image_hidden_states or [[]] * hidden_states.shape[0]
        if return_dict:
            msg = "there is one output: return_dict=True is not supported"
            raise ValueError(msg)
        check_inputs(hidden_states, text_hidden_states, references, self.patch_size)
        image_grid = self._grid(hidden_states)
        lengths = text_lengths(text_hidden_states, text_attention_mask)
        samples = [
            Sample(length, tuple(self._grid(ref) for ref in refs), image_grid)
            for length, refs in zip(lengths, references, strict=True)
        ]
        check_extent(samples, freqs_cis)
        temb, text = self.time_caption_embed(timestep, text_hidden_states)
        given = Conditions(samples, freqs_cis, temb)
        text = self._refine_text(text, given)
        image = self._refine_image(hidden_states, given)
        joint = self._join(text, self._refine_references(references, given), image, given)
        ends = [(row, sample.tokens) for row, sample in zip(joint, samples, strict=True)]
        tokens = torch.stack([row[end - image_grid.tokens : end] for row, end in ends])
        return unpatchify(tokens, image_grid, self.patch_size)

    def _refine_text(self, text: torch.Tensor, given: Conditions) -> torch.Tensor:
        padded = text.shape[1]
        if padded == 0:
            # The unconditional pass. A block would make a graph of its own for length 0.
            return text
        lengths = [sample.text for sample in given.samples]
        mask = self._mask(lengths, padded, text.device)
        rotary = self._rotary(given, [text_positions(n, text.device) for n in lengths], padded, text.dtype)
        text = own(text)
        for block in self.context_refiner:
            text = block(text, mask, rotary)
        return text

    def _refine_image(self, latent: torch.Tensor, given: Conditions) -> torch.Tensor:
        image = own(self.x_embedder(patchify(latent, self.patch_size)))
        count, tokens = image.shape[:2]
        mask = self._mask([tokens] * count, tokens, image.device)
        positions = [sample.image_positions(image.device) for sample in given.samples]
        rotary = self._rotary(given, positions, tokens, image.dtype)
        for block in self.noise_refiner:
            image = block(image, mask, rotary, given.temb)
        return image

    def _refine_references(self, references: References, given: Conditions) -> list[list[torch.Tensor]]:
        """Refine every reference as a sequence of its own and give each sample its own back."""
        rows = [
            self.ref_image_patch_embedder(patchify(ref[None], self.patch_size))[0] + self.image_index_embedding[index]
            for refs in references
            for index, ref in enumerate(refs)
        ]
        if not rows:
            return [[] for _ in references]
        lengths = [row.shape[0] for row in rows]
        tokens = pad_rows(rows, max(lengths))
        mask = self._mask(lengths, max(lengths), tokens.device)
        positions = [p for sample in given.samples for p in sample.reference_positions(tokens.device)]
        rotary = self._rotary(given, positions, max(lengths), tokens.dtype)
        temb = given.temb[[owner for owner, refs in enumerate(references) for _ in refs]]
        for block in self.ref_image_refiner:
            tokens = block(tokens, mask, rotary, temb)
        refined = iter([row[:length] for row, length in zip(tokens, lengths, strict=True)])
        return [[next(refined) for _ in refs] for refs in references]

    def _join(self, text: torch.Tensor, references: References, image: torch.Tensor, given: Conditions) -> torch.Tensor:
        """Run the main layers over one sequence a sample, and project to patches."""
        lengths = [sample.tokens for sample in given.samples]
        rows = [
            torch.cat([text[index, : sample.text], *references[index], image[index]])
            for index, sample in enumerate(given.samples)
        ]
        joint = pad_rows(rows, max(lengths))
        mask = self._mask(lengths, max(lengths), joint.device)
        positions = [sample.joint_positions(joint.device) for sample in given.samples]
        rotary = self._rotary(given, positions, max(lengths), joint.dtype)
        for block in self.layers:
            joint = block(joint, mask, rotary, given.temb)
        out: torch.Tensor = self.norm_out(joint, given.temb)
        return out

    def _grid(self, latent: torch.Tensor) -> Grid:
        return Grid(latent.shape[-2] // self.patch_size, latent.shape[-1] // self.patch_size)

    def _mask(self, lengths: Sequence[int], padded: int, device: torch.device) -> torch.Tensor | AttentionMetadata:
        packing = self.attention.wants_packing
        return publish_mask(lengths, padded, device, publishing=self.mask_publishing, packing=packing)

    def _rotary(self, given: Conditions, positions: Sequence[torch.Tensor], padded: int, dtype: torch.dtype) -> Rotary:
        rotary = look_up(given.tables, positions, padded)
        return with_table(rotary, activation_dtype=dtype) if self.fused_qk_norm_rope else rotary


def own(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` as a tensor that is no view.

    A ``Linear`` returns a view of its flat product, a block a tensor of its own: unless views are not
    tracked (``torch.inference_mode``), Dynamo up to torch 2.14 compiles the same block once for each.
    """
    return x.clone()
