"""The recording: immutable plain data, asked for what it holds, and readable without torch."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from compilescope.record import CodeObject, Compilation, Meta, Recompile, Recording

if TYPE_CHECKING:
    import msgspec

META = Meta(compilescope="1.0", torch="2.13.0", python="3.11", platform="Linux x86_64", device="cpu")
CODE = CodeObject(id="a.py:f", qualname="f", file="a.py", line=1)


def compilation(number: int, outcome: str, *, recompile: bool = False) -> Compilation:
    return Compilation(
        id=f"0/{number}",
        code=CODE.id,
        outcome=outcome,  # type: ignore[arg-type]
        seconds=0.0,
        recompile=Recompile(entries=()) if recompile else None,
    )


RECORDING = Recording(
    meta=META,
    code_objects=(CODE,),
    compilations=(
        compilation(0, "compiled"),
        compilation(1, "compiled", recompile=True),
        compilation(2, "limit", recompile=True),
        compilation(3, "skipped"),
        compilation(4, "failed"),
        compilation(5, "empty"),
    ),
)


def test_compiled_are_those_that_made_an_entry() -> None:
    assert [c.id for c in RECORDING.compiled] == ["0/0", "0/1"]


def test_recompiles_are_those_that_made_an_entry_beside_another() -> None:
    assert [c.id for c in RECORDING.recompiles] == ["0/1"]


def test_code_object_is_found_by_its_id() -> None:
    assert RECORDING.code("a.py:f") is CODE
    with pytest.raises(KeyError, match=r"b\.py:g"):
        RECORDING.code("b.py:g")


@pytest.mark.parametrize("thing", [RECORDING, META, CODE, RECORDING.compilations[0]], ids=lambda t: type(t).__name__)
def test_nothing_of_it_can_be_changed(thing: msgspec.Struct) -> None:
    with pytest.raises(AttributeError):
        setattr(thing, thing.__struct_fields__[0], None)


def test_what_was_not_looked_at_is_none_and_not_nothing() -> None:
    bare = RECORDING.compilations[0]
    assert (bare.guards, bare.operators, bare.point, bare.recompile) == (None, None, None, None)
    assert Recompile(entries=()).shape_driven is None


@pytest.mark.parametrize(
    "module", ["record", "storage", "errors", "analysis.causes", "analysis.breaks", "analysis.kinds"]
)
def test_module_is_imported_without_torch(module: str) -> None:
    code = f"import sys, compilescope.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
