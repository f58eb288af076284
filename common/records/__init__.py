"""Records of a run: folder, machine, time, callback states."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.records.environment import environment as environment
    from common.records.resumable_callback import ResumableCallback as ResumableCallback
    from common.records.run_directory import RunDirectory as RunDirectory
    from common.records.training_cost import TrainingCost as TrainingCost

import_when_used(__name__)
