"""A denoising loop around MammothModa2's transformer, and what compiling it costs and changes."""

from models.denoising.compare import REMEDIES, TARGET, against, run_arms
from models.denoising.control import norm_reduction_in_lanes
from models.denoising.decoder import decode, saturated
from models.denoising.loop import Request, denoise
from models.denoising.measures import Difference, bitwise, max_abs, psnr, relative_l2
from models.denoising.results import Against, Arm, Comparison, Measured, Settings
from models.denoising.timing import StepClock, abba, peak_bytes, reset_peak, start_up, warm_step

__all__ = [
    "REMEDIES",
    "TARGET",
    "Against",
    "Arm",
    "Comparison",
    "Difference",
    "Measured",
    "Request",
    "Settings",
    "StepClock",
    "abba",
    "against",
    "bitwise",
    "decode",
    "denoise",
    "max_abs",
    "norm_reduction_in_lanes",
    "peak_bytes",
    "psnr",
    "relative_l2",
    "reset_peak",
    "run_arms",
    "saturated",
    "start_up",
    "warm_step",
]
