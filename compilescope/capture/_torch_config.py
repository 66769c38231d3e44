"""The settings of torch that decide what compiles: read for a recording, and restored after a test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from torch._dynamo import config as dynamo_config
from torch.utils._config_module import _UNSET_SENTINEL

_REPORTED_CONFIG: Final = (
    "recompile_limit",
    "accumulated_recompile_limit",
    "assume_static_by_default",
    "automatic_dynamic_shapes",
    "specialize_int",
    "specialize_float",
    "allow_unspec_int_on_nn_module",
    "suppress_errors",
    "fail_on_recompile_limit_hit",
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
)
_REPORTED_SHAPE_CONFIG: Final = ("use_duck_shape", "backed_size_oblivious")


def read_config() -> dict[str, bool | int | float | str | None]:
    """Return the settings that decide what recompiles. They are thread-local: call this in the thread that compiles."""
    import torch.fx.experimental._config as shape_config  # noqa: PLC0415 (a config module, made at first use)

    found = {name: getattr(dynamo_config, name) for name in _REPORTED_CONFIG if hasattr(dynamo_config, name)}
    found |= {name: getattr(shape_config, name) for name in _REPORTED_SHAPE_CONFIG if hasattr(shape_config, name)}
    plain = (bool, int, float, str, type(None))
    return {name: value for name, value in found.items() if isinstance(value, plain)}


@dataclass(frozen=True, slots=True)
class ConfigSnapshot:
    """The settings of Dynamo and of symbolic shapes, as they were in one thread."""

    settings: tuple[tuple[Any, dict[str, Any]], ...]


def config_snapshot() -> ConfigSnapshot:
    """Return every setting that decides what compiles, for :func:`restore_config`."""
    import torch.fx.experimental._config as shape_config  # noqa: PLC0415 (a config module, made at first use)

    modules: tuple[Any, ...] = (dynamo_config, shape_config)
    return ConfigSnapshot(tuple((module, module.get_config_copy()) for module in modules))


def untouched_config() -> ConfigSnapshot:
    """Return the default of every setting, apart from the environment."""
    import torch.fx.experimental._config as shape_config  # noqa: PLC0415 (as above)

    modules: tuple[Any, ...] = (dynamo_config, shape_config)
    return ConfigSnapshot(
        tuple((module, {name: _unset(module._config[name]) for name in module.get_config_copy()}) for module in modules)
    )


def _unset(entry: Any) -> Any:  # noqa: ANN401 (a setting of torch's may be anything)
    given = (entry.env_value_force, entry.env_value_default)
    return next((value for value in given if value is not _UNSET_SENTINEL), entry.default)


def restore_config(snapshot: ConfigSnapshot) -> None:
    """Restore what changed since ``snapshot``; leave the rest untouched."""
    for module, before in snapshot.settings:
        now = module.get_config_copy()
        for name, value in before.items():
            if now[name] != value:
                setattr(module, name, value)
