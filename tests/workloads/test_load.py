"""Workloads are imported from where SOURCE says; what cannot be is refused in one sentence."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from compilescope.errors import WorkloadError
from compilescope.workloads.load import Found, importable, load
from compilescope.workloads.locate import WorkloadSource, locate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from compilescope.workloads.declare import Workload

    Write = Callable[..., Path]

TWO = """
from compilescope import Axis, workload
@workload(axes=[Axis("n", [1, 2])])
def first():
    return lambda n: n
@workload
def second():
    return lambda: None
def plain(n=1):
    return n
NUMBER = 3
"""


def loaded(source: WorkloadSource) -> tuple[Workload, ...]:
    with importable(source):
        found = load(source)
    assert not isinstance(found, Found)
    return found


def found_in(source: WorkloadSource, *, as_model: bool = False) -> Found:
    with importable(source):
        found = load(source, as_model=as_model)
    assert isinstance(found, Found)
    return found


def test_all_workloads_of_a_file_are_loaded_in_order(write: Write) -> None:
    assert [one.name for one in loaded(WorkloadSource(write(TWO)))] == ["first", "second"]


def test_named_workload_is_loaded(write: Write) -> None:
    assert [one.name for one in loaded(WorkloadSource(write(TWO), "second"))] == ["second"]


def test_named_function_is_found_with_what_stands_beside_it(write: Write) -> None:
    path = write(TWO)
    found = found_in(WorkloadSource(path, "plain"))
    assert found.value is found.home["plain"]
    assert found.source == f"{path}:plain"


def test_class_may_follow_its_module_after_a_dot(folder: Path) -> None:
    (folder / "models_of_dots.py").write_text("import torch\nclass Net(torch.nn.Module): ...\n")
    found = found_in(WorkloadSource("models_of_dots.Net"))
    assert found.value is found.home["Net"]


MODELS = """
import torch
class Block(torch.nn.Module): ...
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
"""


@pytest.mark.parametrize(
    ("rest", "name"),
    [("", "Net"), ("def build(): return Net()", "build"), ("def any() -> torch.nn.Module: return Net()", "any")],
)
def test_model_of_a_file_is_its_builder_or_the_class_that_no_other_uses(write: Write, rest: str, name: str) -> None:
    assert found_in(WorkloadSource(write(f"{MODELS}{rest}")), as_model=True).name == name


def test_several_models_of_a_file_are_named(write: Write) -> None:
    path = write(f"{MODELS}class Other(torch.nn.Module): ...")
    with pytest.raises(WorkloadError, match=r"holds Net and Other: name one, as .*:Net\."):
        found_in(WorkloadSource(path), as_model=True)


def test_file_without_a_model_is_told(write: Write) -> None:
    with pytest.raises(WorkloadError, match=r"neither an nn\.Module class nor a function that builds a model"):
        found_in(WorkloadSource(write("import torch")), as_model=True)


def test_workloads_that_a_file_merely_imports_are_left_out(write: Write) -> None:
    first = write(TWO)
    other = write(
        f"from compilescope import workload\nfrom {first.stem} import first\n"
        "@workload\ndef third():\n    return print\n"
    )
    assert [one.name for one in loaded(WorkloadSource(other))] == ["third"]


def test_module_of_a_package_may_import_relatively(folder: Path) -> None:
    package = folder / "pack_relative"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("def build():\n    return print\n")
    (package / "work.py").write_text(
        "from compilescope import workload\nfrom .parts import build\nw = workload(build)\n"
    )
    for source in (WorkloadSource(package / "work.py"), WorkloadSource("pack_relative.work")):
        assert [one.name for one in loaded(source)] == ["build"]


def test_file_called_like_a_loaded_module_does_not_take_its_place(write: Write) -> None:
    path = write(TWO, name="json.py")
    json = sys.modules["json"]
    assert [one.name for one in loaded(WorkloadSource(path))] == ["first", "second"]
    assert sys.modules["json"] is json


def test_search_path_is_as_before(write: Write) -> None:
    before = list(sys.path)
    loaded(WorkloadSource(write(TWO)))
    assert sys.path == before


def refusal(text: str) -> str:
    with pytest.raises(WorkloadError) as caught:
        loaded(locate(text))
    return str(caught.value)


def test_missing_file_is_told_with_a_guess(write: Write) -> None:
    path = write("", name="train_model{}.py")
    assert refusal(str(path).replace("model", "modle")).endswith(f"does not exist. Did you mean {path}?")


def test_directory_is_told(folder: Path) -> None:
    assert refusal(str(folder)) == f"{folder} is a directory; give a file in it, or a module as package.module."


def test_syntax_error_is_told_with_its_line(write: Write) -> None:
    path = write("x = 1\ndef f(:\n")
    assert refusal(str(path)) == f"{path} is not valid Python: invalid syntax (line 2)."


def test_null_byte_is_told(write: Write) -> None:
    assert "is not valid Python" in refusal(str(write("x = 1\0")))


def test_import_error_is_told_with_its_place(write: Write) -> None:
    path = write("import compilescope\nimport no_such_library\nw = compilescope.workload\n")
    said = refusal(str(path))
    assert said == (
        f"{path} cannot be imported: ModuleNotFoundError: No module named 'no_such_library' ({path.name}, line 2)."
    )


@pytest.mark.parametrize("statement", ["raise ValueError('bad')", "raise SystemExit(3)"])
def test_whatever_an_import_raises_is_told(write: Write, statement: str) -> None:
    path = write(f"from compilescope import errors\n{statement}\ndef f(): ...\n")
    assert refusal(f"{path}:f").startswith(f"{path} cannot be imported: ")
    assert path.stem not in sys.modules


def test_own_complaint_about_a_declaration_is_not_wrapped(write: Write) -> None:
    path = write("from compilescope import Axis\nAxis('n', [])\n")
    assert refusal(f"{path}:w") == "Axis 'n' has no values."


def test_module_that_does_not_exist_is_told() -> None:
    assert refusal("no_such_package.model") == (
        "no_such_package.model is neither a file here nor a module that can be imported."
    )


def test_unknown_name_is_told_with_a_guess(write: Write) -> None:
    path = write(TWO)
    assert refusal(f"{path}:frist") == f"{path} has nothing called 'frist'. Did you mean first?"
    assert refusal(f"{path}:zzz") == f"{path} has nothing called 'zzz'. It declares first and second."


@pytest.mark.parametrize(("name", "what"), [("NUMBER", "int"), ("Axis", "a class, but not an nn.Module class")])
def test_name_of_something_else_is_told(write: Write, name: str, what: str) -> None:
    path = write(TWO)
    expected = f"{path}:{name} is {what}; name a workload, a model, an nn.Module class, or a function."
    assert refusal(f"{path}:{name}") == expected


def test_module_without_workloads_is_told(write: Write) -> None:
    path = write("def f(): ...")
    assert refusal(path.stem).startswith(f"{path.stem} declares no workload; name a model or a function of it as ")


def test_logs_are_refused_until_they_can_be_read(write: Write, folder: Path) -> None:
    assert "is a TORCH_LOGS text" in refusal(str(write("V0101 [0/1] [__recompiles] Recompiling\n", name="log{}.txt")))
    (folder / "trace").mkdir()
    (folder / "trace" / "dedicated_log_torch_trace_x.log").write_text("")
    assert "is a TORCH_TRACE directory" in refusal(str(folder / "trace"))
    assert "is a TORCH_TRACE log" in refusal(str(folder / "trace" / "dedicated_log_torch_trace_x.log"))


def test_any_other_file_is_told(write: Write) -> None:
    path = write("hello", name="notes{}.txt")
    assert refusal(str(path)) == f"{path} is neither a Python file (.py) nor a saved recording (.json)."
