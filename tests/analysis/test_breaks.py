"""The kind of a graph break is read from Dynamo's title for it; every title in its registry has one."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec.structs import replace

from compilescope.analysis.breaks import classify, kind_of
from compilescope.record import GraphBreak

KINDS = {
    "data_dependent_branch",
    "item",
    "dynamic_shape_op",
    "logging",
    "print",
    "compiler_disable",
    "skipped_function",
    "explicit_graph_break",
    "context_manager",
    "generator",
    "observed_exception",
    "no_fake_kernel",
    "builtin",
    "other",
}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Data-dependent branching", "data_dependent_branch"),
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False Explanation: ...", "item"),
        ("Data dependent operator Explanation: `aten._local_scalar_dense.default` has a non-Tensor output", "item"),
        (
            "Dynamic shape operator Explanation: `aten.nonzero.default`'s output shape depends on data",
            "dynamic_shape_op",
        ),
        ("Failed to trace builtin operator Explanation: cannot trace builtin operator `print` with", "print"),
        ("Failed to trace builtin operator Explanation: cannot trace builtin operator `open` with", "builtin"),
        ("logging.Logger method not supported for non-export cases Explanation: ...", "logging"),
        ("Skip calling `torch.compiler.disable()`d function Explanation: ...", "compiler_disable"),
        ("Attempted to call function marked as skipped Explanation: ...", "skipped_function"),
        ("Call to `torch._dynamo.graph_break()` Explanation: User-inserted graph break.", "explicit_graph_break"),
        ("Unsupported context manager Explanation: cannot enter a `lock` context manager.", "context_manager"),
        ("Observed exception Explanation: no exception handler at the top level", "observed_exception"),
        ("Operator does not support running with fake tensors Explanation: ...", "no_fake_kernel"),
        ("Attempt to trace generator", "generator"),
        ("Something that a later torch says", "other"),
        ("", "other"),
    ],
)
def test_reason_has_its_kind(reason: str, kind: str) -> None:
    assert kind_of(reason) == kind


def test_words_of_an_explanation_do_not_name_the_kind() -> None:
    reason = "Something else Explanation: this generator was called within a context manager"
    assert kind_of(reason) == "other"


def test_break_is_given_its_kind_and_keeps_the_rest() -> None:
    bare = GraphBreak(
        code="a.py:f",
        file="a.py",
        line=3,
        kind="other",
        registry_id="GB0170",
        reason="Data-dependent branching",
        events=2,
        skips_frame=False,
    )
    assert classify(bare) == replace(bare, kind="data_dependent_branch")


def _titles() -> list[str]:
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    registry = json.loads((Path(spec.origin).parent / "_dynamo" / "graph_break_registry.json").read_text())
    return sorted({version["Gb_type"] for versions in registry.values() for version in versions})


def test_titles_of_the_registry_are_told_apart_by_what_they_say() -> None:
    kinds = {title: kind_of(title) for title in _titles()}
    assert set(kinds.values()) <= KINDS
    for title, kind in kinds.items():
        if re.search(r"context manager", title, re.IGNORECASE):
            assert kind == "context_manager", title
        if re.match(r"Data-dependent (branching|assertion)", title):
            assert kind == "data_dependent_branch", title
