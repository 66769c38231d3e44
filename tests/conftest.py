"""Fixtures that every folder of tests shares. None is automatic: a test that compiles asks for ``fresh_dynamo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .confirmed import Confirmed
from .confusion import Confusion

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONFUSION = pytest.StashKey[Confusion]()
_CONFIRMED = pytest.StashKey[Confirmed]()


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Give the test an empty cache and put Dynamo's settings back behind it."""
    import torch
    from torch._dynamo import config as dynamo
    from torch.fx.experimental import _config as shapes

    torch.compiler.reset()
    before = [(module, module.get_config_copy()) for module in (dynamo, shapes)]
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
    for module, settings in before:
        after = module.get_config_copy()
        for name, value in settings.items():
            if after[name] != value:
                setattr(module, name, value)
    torch.compiler.reset()


@pytest.fixture(scope="session")
def confusion(pytestconfig: pytest.Config) -> Confusion:
    """Collect which kind was expected and which was given; printed when the session ends."""
    return pytestconfig.stash.setdefault(_CONFUSION, Confusion())


@pytest.fixture(scope="session")
def confirmed(pytestconfig: pytest.Config) -> Confirmed:
    """Collect what torch's own evaluator said of the explained entries; printed when the session ends."""
    return pytestconfig.stash.setdefault(_CONFIRMED, Confirmed())


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the confusion table and the count of confirmed entries, if any test contributed to them."""
    table = config.stash.get(_CONFUSION, None)
    if table is not None and table.pairs:
        terminalreporter.section("kind expected x kind given")
        for line in table.lines():
            terminalreporter.write_line(line)
    count = config.stash.get(_CONFIRMED, None)
    if count is not None and count.verdicts:
        terminalreporter.section("explained entries")
        for line in count.lines():
            terminalreporter.write_line(line)
