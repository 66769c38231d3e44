"""Values, sources and places in words: as the user would write them, and the same in every run."""

from __future__ import annotations

import enum
import os
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import compilescope
from compilescope.capture import describe

if TYPE_CHECKING:
    from types import CodeType


class Mode(enum.Enum):
    FAST = 1


class Plain:
    def method(self) -> None:
        pass


class Explosive:
    def __repr__(self) -> str:
        msg = "no description"
        raise RuntimeError(msg)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (3, "3"),
        (0.1 + 0.2, "0.30000000000000004"),
        ("mode", "'mode'"),
        (Mode.FAST, "Mode.FAST"),
        (torch.float16, "torch.float16"),
        (torch.ones(1, 77, 8), "f32[1, 77, 8]"),
        (torch.ones(2, dtype=torch.bfloat16, device="meta"), "bf16[2] on meta"),
        (torch.ones(2, dtype=torch.int8), "int8[2]"),
        (nn.Parameter(torch.ones(2)), "f32[2]"),
        (nn.Linear(2, 2), "Linear module"),
        (nn.Linear, "class Linear"),
        (len, "function len"),
        (os, "module os"),
        ([1, "a"], "list of 2: 1, 'a'"),
        ((), "empty tuple"),
        (list(range(20)), "list of 20: 0, 1, 2, 3, 4, 5, 6, 7, ..."),
        ({"a": 1, 2: 3}, "dict with keys 'a', 2"),
    ],
    ids=str,
)
def test_value_is_described_in_a_few_words(value: object, text: str) -> None:
    assert describe.value(value) == text


@pytest.mark.parametrize(
    "value",
    [
        Plain(),
        Plain().method,
        lambda: None,
        object(),
        Explosive(),
        [Plain(), Explosive()],
        {"a": object()},
        (x for x in ()),
    ],
    ids=["object", "method", "lambda", "plain", "explosive", "list", "dict", "generator"],
)
def test_no_value_brings_an_address_along_or_raises(value: object) -> None:
    text = describe.value(value)
    assert text
    assert not re.search(r"0x[0-9a-f]+|\d{12,}", text)


@given(st.text(max_size=400))
def test_shortened_text_is_one_line_of_bounded_length(text: str) -> None:
    short = describe.shorten(text)
    assert len(short) <= 80
    assert "\n" not in short


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("<A object at 0x7f00aabb> 123", "<A> 123"),
        ("___check_obj_id(L['x'], 140584598012432)", "___check_obj_id(L['x'], <id>)"),
        ("___check_type_id(f(L['x'], 1), 94122229640208), type=A", "___check_type_id(f(L['x'], 1), <id>), type=A"),
        ("G['__optimizer_140584598012432_c0'].step", "G['__optimizer_<id>_c0'].step"),
        ("L['self'].seed == 4611686018427387904", "L['self'].seed == 4611686018427387904"),
        ("L['name'] == 'ckpt-20260131235959'", "L['name'] == 'ckpt-20260131235959'"),
        ("0.30000000000000004", "0.30000000000000004"),
    ],
)
def test_addresses_and_ids_are_cut_out_and_the_digits_of_values_are_not(text: str, scrubbed: str) -> None:
    assert describe.scrub(text) == scrubbed


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("L['x']", "x"),
        ("L['x'].size()[0]", "x.size()[0]"),
        ("L['self']._modules['norm'].eps", "self.norm.eps"),
        ("L['self']._modules['blocks']._modules['0']._parameters['weight']", "self.blocks[0].weight"),
        ("L['self']._modules['blocks']._modules", "self.blocks"),
        ("L['self'].__dict__['index']", "self.index"),
        ("L['table']['key']", "table['key']"),
        ("G['STEP']", "G['STEP']"),
        ("G['__import_torch_dot_nn'].functional", "torch.nn.functional"),
    ],
)
def test_source_is_written_as_the_user_would(source: str, written: str) -> None:
    assert describe.source(source) == written


def test_path_is_relative_to_site_packages_or_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert describe.path(str(tmp_path / "models" / "block.py")) == "models/block.py"
    assert describe.path(torch.nn.__file__) == "torch/nn/__init__.py"
    assert describe.path("/nowhere/else.py") == "/nowhere/else.py"
    assert describe.path("<string>") == "<string>"


def test_path_is_whole_where_the_working_directory_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert describe.path("/nowhere/else.py") == "/nowhere/else.py"


def test_file_name_that_dynamo_shortened_is_found_again() -> None:
    torch_folder = Path(torch.__file__).parent
    full = str(Path(compilescope.__file__).resolve())
    common = os.path.commonpath([full, torch_folder])
    # Dynamo cuts the common folder and the slash behind it; where that is the root, one character of the name too.
    assert describe.lengthen(full[len(common) + 1 :]) == full
    assert describe.lengthen("nn/__init__.py") == str(torch_folder / "nn" / "__init__.py")
    assert describe.lengthen("no/such/file.py") == "no/such/file.py"
    assert describe.lengthen(full) == full


def test_users_line_is_read_from_a_comment_with_and_without_its_text() -> None:
    found = describe.location_in("# return x * 2  # /src/a.py:31 in Block.forward (_ops.py:1 in f)")
    assert found is not None
    assert (found.file, found.line, found.text, found.function) == ("/src/a.py", 31, "return x * 2", "Block.forward")
    bare = describe.location_in("# _dynamo/output_graph.py:1135 in init_ambient_guards")
    assert bare is not None
    assert (bare.file, bare.line) == ("torch/_dynamo/output_graph.py", 1135)
    alone = describe.location_in("# (_dynamo/guards.py:12 in f) and (_dynamo/guards.py:12 in f)")
    assert alone is not None
    assert (alone.file, alone.line, alone.function) == ("torch/_dynamo/guards.py", 12, "f")
    assert describe.location_in("(HINT: type Linear)") is None


def test_frame_without_its_text_is_looked_up() -> None:
    frame = traceback.FrameSummary(__file__, 1, "f")
    assert (describe.location_of(frame).text or "").startswith('"""Values, sources and places')


class Inherits(nn.ReLU):
    pass


def wrapper_code() -> CodeType:
    def inner(*args: object) -> object:
        return args

    return inner.__code__


@pytest.mark.parametrize(
    ("code", "f_locals", "owner"),
    [
        (nn.ReLU.forward.__code__, {"self": nn.ReLU()}, None),
        (nn.ReLU.forward.__code__, {"self": Inherits()}, "Inherits"),
        (wrapper_code(), {"fn": nn.ReLU()}, "ReLU"),
        (wrapper_code(), {"fn": nn.ReLU().forward}, "ReLU"),
        (wrapper_code(), {"args": (nn.ReLU(), 1)}, "ReLU"),
        (wrapper_code(), {"args": (1,)}, None),
        (wrapper_code(), {}, None),
    ],
)
def test_owner_is_the_class_that_a_shared_frame_runs_for(
    code: CodeType, f_locals: dict[str, object], owner: str | None
) -> None:
    assert describe.owner(code, f_locals) == owner
