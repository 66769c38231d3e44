"""Programs with which CI scripts start pytest, or to which they name it."""

from __future__ import annotations

import re
from typing import Final

PYTEST: Final = frozenset({"pytest", "py.test", "pytest-3"})
PYTHON: Final = re.compile(r"(python|pypy)[\d.]*")
SHELLS: Final = frozenset({"bash", "sh", "dash", "zsh", "ash"})
RUN: Final = frozenset({"run", "exec"})
INSTALL: Final = frozenset({"add", "install", "remove", "uninstall", "freeze", "show"})
LAUNCH: Final = frozenset(
    {
        *("env", "exec", "nice", "ionice", "nohup", "numactl", "retry", "setsid", "stdbuf", "sudo", "taskset"),
        *("time", "timeout", "unbuffer", "uvx", "xvfb-run"),
        *("accelerate", "deepspeed", "mpiexec", "mpirun", "srun", "torchrun"),
        *("torch.distributed.launch", "torch.distributed.run"),
        *("compute-sanitizer", "coverage", "memray", "nsys", "py-spy", "strace", "valgrind"),
    }
)
"""Programs that start the command at the end of their own."""
LAUNCH_BY_RUN: Final = frozenset(
    {
        *("hatch", "pdm", "pipenv", "pipx", "pixi", "poetry", "rye", "uv"),
        *("conda", "mamba", "micromamba", "docker", "kubectl", "nerdctl", "podman"),
    }
)
"""Programs that do so after a word of `RUN`."""
MENTION: Final = frozenset(
    {
        *("apk", "apt", "apt-get", "brew", "conda", "dnf", "mamba", "micromamba", "yum"),
        *("pdm", "pip", "pip3", "pipx", "poetry", "uv"),
        *("[", "[[", "command", "echo", "export", "hash", "printf", "set", "source", "test", "type", "which"),
        *("awk", "cat", "cp", "git", "grep", "head", "ls", "mkdir", "mv", "rm", "sed", "tail", "tee", "touch"),
    }
)
"""Programs that may name pytest and do not start it, unless they launch it with a word of `RUN`."""
VALUED: Final = frozenset({"--with", "--from", "--group", "--only-group", "--extra", "--name", "--env", "-e", "-n"})
"""Options of launching programs whose value may be the word pytest."""
TASKS: Final = frozenset({"tox", "nox"})
"""Programs that start tests from their own configuration file."""
TASK_RUNNERS: Final = frozenset({"make", "just", "task", "invoke", "hatch", "pixi", "pdm", "poe"})
"""Programs that do so if asked for tests."""
