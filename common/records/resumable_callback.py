"""A Keras callback whose memory a checkpoint keeps."""

from __future__ import annotations

import numpy as np
from tensorflow import keras


class ResumableCallback(keras.callbacks.Callback):
    """A callback whose memory between evaluations is a dictionary of JSON values and a list of arrays.

    Attributes:
        stopped: whether this callback has ended the training for good, so that a resumed one does not continue either.
    """

    stopped = False

    @property
    def holds_selection(self) -> bool:
        """Whether the method of this callback waits for its moment, so that no evaluation counts yet."""
        return False

    def state(self) -> dict:
        """JSON values that `restore` needs to continue as if nothing had happened."""
        return {}

    def arrays(self) -> list[np.ndarray]:
        """Arrays that `restore` needs, in a fixed order."""
        return []

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Takes back what `state` and `arrays` gave."""
        del state, arrays

    def close(self) -> None:
        """Lets go of files and lines on the terminal; called at the end of training, however it ends."""
