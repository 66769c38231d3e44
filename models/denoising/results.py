"""What a comparison found, as plain data: text, numbers and recordings. ``msgspec.json.encode`` writes it.

Where a measure could not be taken it is None, and what kept it from being taken is said beside.
"""

from typing import Any, Literal

import msgspec

from compilescope.record import Recording
from models.denoising.loop import Request
from models.denoising.measures import Difference
from models.denoising.timing import abba, warm_step

ArmName = Literal["eager", "compiled", "control"]
Remedies = Literal["none", "settings", "marks"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How arms are run.

    Attributes:
        backend: of ``torch.compile``.
        compile_options: further keyword arguments of ``torch.compile``, beside ``dynamic=True, fullgraph=True``.
        control: also run the control arm.
        remedies: against graphs for special sizes: ``settings`` are ``backed_size_oblivious=True`` and
            ``use_duck_shape=False``, ``marks`` those of :func:`models.mammoth_moda2.leave_sizes_free`.
        rounds: turns of every arm, halved: A B B A is one round.
        warmup: steps at a turn's beginning that are not among the warm ones.

    Raises:
        ValueError: fewer than 1 round or 0 steps.
    """

    backend: str = "inductor"
    compile_options: dict[str, Any] = {}
    control: bool = False
    remedies: Remedies = "none"
    rounds: int = 1
    warmup: int = 1

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be carried out, before anything runs."""
        abba((), self.rounds)
        warm_step((), self.warmup)


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One arm at one request.

    Attributes:
        request: what was denoised.
        turns: seconds of every step, a tuple a turn, warm-up steps among them.
        step_seconds: median over the warm steps of all turns; None if there were none.
        startup_seconds: the first turn's first step beyond ``step_seconds``: compiling, in the compiled arm, if no
            earlier request had it compiled, and what loading a kernel costs in any.
        peak_bytes: most memory that torch had allocated at once in any turn, weights included; None where that is not
            kept, as on a CPU.
        compiles: compilations of the target in the first turn.
        repeatable: whether all turns ended in the same bytes; None if only one did end.
        error: the first exception, in one line; a turn that raised left nothing else.
    """

    request: Request
    turns: tuple[tuple[float, ...], ...]
    step_seconds: float | None
    startup_seconds: float | None
    peak_bytes: int | None
    compiles: int
    repeatable: bool | None
    error: str | None = None


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One arm over all requests.

    Attributes:
        name: which.
        changed: modules that it changed: compiled blocks, reordered norms.
        recording: of its first turn.
        later_compiles: compilations of anything in its later turns, which are timed and should have none.
        measured: by request, in the order that they were run.
    """

    name: ArmName
    changed: int
    recording: Recording
    later_compiles: int
    measured: tuple[Measured, ...]


class Against(msgspec.Struct, frozen=True, kw_only=True):
    """An arm's result beside the eager arm's, first turns both.

    Attributes:
        arm: the candidate.
        request: what was denoised.
        image: difference of the decoded images, peak 1; both are decoded with the eager latent's deviation.
        latent: difference of the latents; the peak is the eager latent's largest magnitude.
        latent_std: the eager latent's standard deviation.
        saturated: share of the eager image's values at 0 or 1, where a difference would be lost.
        note: why something is None; None if nothing is.
    """

    arm: ArmName
    request: Request
    image: Difference | None = None
    latent: Difference | None = None
    latent_std: float | None = None
    saturated: float | None = None
    note: str | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """All arms.

    Attributes:
        torch: its version.
        device: its name, as CUDA has it, or ``cpu``.
        dtype: of the weights.
        parameters: how many there are.
        model: the model's configuration.
        settings: how arms were run.
        order: of the turns.
        arms: eager first.
        differences: of every other arm at every request.
    """

    torch: str
    device: str
    dtype: str
    parameters: int
    model: dict[str, Any]
    settings: Settings
    order: tuple[ArmName, ...]
    arms: tuple[Arm, ...]
    differences: tuple[Against, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """What arms raised, a line each."""
        return tuple(f"{arm.name}, {m.request}: {m.error}" for arm in self.arms for m in arm.measured if m.error)
