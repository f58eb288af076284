"""What a run was computed with: versions, processors and accelerators."""

from __future__ import annotations

import importlib.metadata
import os
import platform

import numpy as np
import tensorflow as tf


def environment() -> dict[str, object]:
    """Versions and hardware of this process, as JSON values. Nothing in it names a person or a machine."""
    details = [tf.config.experimental.get_device_details(device) for device in tf.config.list_physical_devices("GPU")]
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": importlib.metadata.version("keras"),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "accelerators": [str(detail.get("device_name", "GPU")) for detail in details],
    }
