"""The compiled transformer under Cache-DiT: what is not served from its cache is the plain model's, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import compilescope

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers", reason="the models are built from diffusers' parts")

from models.diffusers_dits import Size  # noqa: E402 (behind the skips)
from models.mammoth_moda2 import TransformerBlock, build, inputs, tables  # noqa: E402
from models.regional import regionally_compile  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from models.mammoth_moda2 import Transformer2DModel

LAYERS, STEPS, WARM = 4, 8, 3
# One block is always computed; its change decides whether the other three are.
FULL, SERVED = LAYERS, 1


@pytest.fixture
def cache_dit(monkeypatch: pytest.MonkeyPatch) -> Any:
    # It logs to the stdout that it meets when it is imported, which under pytest is soon closed.
    monkeypatch.setenv("CACHE_DIT_LOG_LEVEL", "error")
    return pytest.importorskip("cache_dit", reason="Cache-DiT is not installed")


@pytest.fixture
def cached(cache_dit: Any, request: pytest.FixtureRequest) -> Iterator[Transformer2DModel]:
    """Give a model whose main layers are compiled, if asked for, and cached."""
    model = made()
    if request.param:
        regionally_compile(model, backend="eager", dynamic=True, fullgraph=True)
    cache_dit.enable_cache(
        cache_dit.BlockAdapter(
            transformer=model,
            blocks=model.layers,
            forward_pattern=cache_dit.ForwardPattern.Pattern_3,
            check_forward_pattern=True,
            has_separate_cfg=True,
        ),
        cache_config=cache_dit.DBCacheConfig(
            Fn_compute_blocks=1,
            Bn_compute_blocks=0,
            max_warmup_steps=WARM,
            max_continuous_cached_steps=2,
            # Always near enough: which steps are served does not hang on the numbers.
            residual_diff_threshold=0.9,
            enable_separate_cfg=True,
            num_inference_steps=STEPS,
        ),
    )
    cache_dit.refresh_context(model)
    yield model
    cache_dit.disable_cache(model)


def made() -> Transformer2DModel:
    return build(num_layers=LAYERS)


def requests(model: Transformer2DModel) -> list[dict[str, Any]]:
    """Return the forwards of a run: each step with its text, then without, on a latent that drifts."""
    freqs_cis = tables(model)
    found = []
    for step in range(STEPS):
        for text_len in (7, 0):
            given = inputs(model, Size(4, 7, text_len), freqs_cis)
            given["hidden_states"] = given["hidden_states"] * (1 + 0.001 * step)
            found.append(given)
    return found


def layers_run(model: Transformer2DModel, given: dict[str, Any]) -> tuple[torch.Tensor, int]:
    """Return the output, and how many main layers computed it."""
    ran: list[int] = []
    hooks = [
        module.register_forward_hook(lambda *_: ran.append(1))
        for name, module in model.named_modules()
        if isinstance(module, TransformerBlock) and name.startswith("layers.")
    ]
    try:
        with torch.no_grad():
            return model(**given), len(ran)
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("cached", [False, True], indirect=True, ids=["eager", "compiled"])
def test_steps_that_are_computed_are_the_plain_model_s(cached: Transformer2DModel) -> None:
    plain = made()
    run, same = [], []
    for given in requests(plain):
        out, layers = layers_run(cached, given)
        run.append(layers)
        same.append(torch.equal(out, layers_run(plain, given)[0]))
    conditional, unconditional = run[0::2], run[1::2]
    assert conditional == unconditional == [FULL] * WARM + [SERVED, SERVED, FULL, SERVED, SERVED]
    assert same == [layers == FULL for layers in run]


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("cached", [True], indirect=True)
def test_caching_compiles_nothing_more_and_breaks_no_graph(cached: Transformer2DModel) -> None:
    with compilescope.observe(["TransformerBlock.forward"]) as scope:
        for given in requests(cached):
            layers_run(cached, given)
    assert len(scope.recording.compiled) == 2
    assert not scope.recording.graph_breaks
