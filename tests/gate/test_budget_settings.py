"""The table ``[tool.compilescope.budget]``."""

from __future__ import annotations

import pytest

from compilescope.errors import UsageError
from compilescope.gate.budget import Budget
from compilescope.gate.budget_settings import KEYS, read_budget


def test_every_key_is_read() -> None:
    table = {
        "targets": ["Block.forward"],
        "max-compiles": 2,
        "max-recompiles": 1,
        "max-recompiles-by-kind": {"module_type": 1},
        "no-shape-recompile": True,
        "max-graph-breaks": 0,
        "max-own-graph-breaks": 0,
        "own": ["src"],
        "allow-fallbacks": ["stance"],
        "allow-uncompiled": ["norm"],
        "allow-unknown": True,
        "min-operators": 10,
        "max-guards": 400,
        "max-compile-seconds": 60,
        "max-relative-l2": 0.02,
    }
    budget = read_budget(table)
    assert table.keys() == set(KEYS)
    for key, value in table.items():
        read = getattr(budget, key.replace("-", "_"))
        assert read == (tuple(value) if isinstance(value, list) else value)


def test_empty_table_sets_no_limit() -> None:
    assert read_budget({}) == Budget()


def test_single_string_is_a_list_of_one() -> None:
    assert read_budget({"own": "src/pkg"}).own == ("src/pkg",)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"max_compiles": 1}, "Unknown key 'max_compiles' in the budget: .* Did you mean max-compiles"),
        ({"max-compiles": "1"}, "Expected `int | null`, got `str`"),
        ({"max-compiles": True}, "Expected `int | null`, got `bool`"),
        ({"max-compiles": 1.5}, "Expected `int | null`, got `float`"),
        ({"no-shape-recompile": 1}, "Expected `bool`, got `int`"),
        ({"own": [1]}, "Expected `str`, got `int`"),
        ({"max-recompiles-by-kind": {"size": -1}}, "The limit size must be 0 or more"),
    ],
)
def test_wrong_value_is_told(table: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence.replace("|", r"\|")):
        read_budget(table)
