"""A Keras callback whose state is saved in checkpoints."""

from __future__ import annotations

import numpy as np
from tensorflow import keras


class ResumableCallback(keras.callbacks.Callback):
    """A callback with a state: a dictionary of JSON values, and arrays.

    Attributes:
        stopped: whether this callback has ended the training for good, so that a resumed one does not continue either.
    """

    stopped = False

    @property
    def holds_selection(self) -> bool:
        """True while no evaluation counts, because the callback's method has not begun."""
        return False

    def state(self) -> dict:
        """Return the JSON values that `restore` needs for an exact continuation."""
        return {}

    def arrays(self) -> list[np.ndarray]:
        """Return the arrays that `restore` needs, in a fixed order."""
        return []

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        """Restore the values of `state` and `arrays`."""
        del state, arrays

    def close(self) -> None:
        """Release files and terminal lines; called whenever training ends, for any reason."""
