"""Runs the suite against every supported torch, and the linters.

nox                     linters, and the suite on the torch of CI
nox -s tests            the suite on every supported torch (CUDA builds of several GB; they run on a CPU too)
nox -s "tests(torch='2.15.0')"
"""

import nox

nox.options.sessions = ["lint", "types", "tests(torch='2.13.0')"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
@nox.parametrize("torch", ["2.11.0", "2.13.0", "2.14.1", "2.15.0"])
def tests(session: nox.Session, torch: str) -> None:
    """Run the suite; arguments after -- go to pytest."""
    # torch goes first: what follows must not bring another.
    session.install(f"torch=={torch}")
    session.install("-e", ".[test]", f"torch=={torch}")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style."""
    session.install("ruff")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    session.install("torch==2.13.0")
    session.install("-e", ".", "mypy", "types-networkx", "types-PyYAML", "torch==2.13.0")
    session.run("mypy")
