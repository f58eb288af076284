"""What a run leaves behind: its folder, the machine it ran on, its time and energy, what a callback remembers."""

from common.records.energy import GpuEnergy, PackageEnergy
from common.records.environment import environment
from common.records.resumable_callback import ResumableCallback
from common.records.run_directory import RunDirectory
from common.records.training_cost import TrainingCost

__all__ = [
    "GpuEnergy",
    "PackageEnergy",
    "ResumableCallback",
    "RunDirectory",
    "TrainingCost",
    "environment",
]
