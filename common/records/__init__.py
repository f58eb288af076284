"""Records of a run: folder, machine, time, callback states."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.records.environment import environment
    from common.records.resumable_callback import ResumableCallback
    from common.records.run_directory import RunDirectory
    from common.records.training_cost import TrainingCost

__all__ = [
    "ResumableCallback",
    "RunDirectory",
    "TrainingCost",
    "environment",
]
import_when_used(__name__)
