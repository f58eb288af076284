"""Environment of a figure: versions and hardware."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import pathlib
import platform
import subprocess

import numpy as np
import tensorflow as tf

# TensorFlow switches determinism on in public, but reports its state only here.
from tensorflow.python.framework.config import is_op_determinism_enabled

from common import __version__

_KNOWN_FILE = "common/records/environment.py"  # to this project's git, not to another into which it was installed
_NOT_OF_RUNS = (":(exclude)docs",)
_SET_BY_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE")  # lead to another repository


def environment() -> dict:
    """Return versions and hardware of this process, as JSON values.

    Unknown values are `None`. Nothing in it names a person or a machine. `version` is this project's. `commit` is that
    of the checkout of this code, as `commit_of` returns it.
    `threads` counts those of one operation; None: TensorFlow's choice.
    """
    memory, keras_version = _memory_bytes(), importlib.metadata.version("keras")
    return {
        "version": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras_version,
        "numpy": np.__version__,
        "stack": f"TensorFlow {tf.__version__}, Keras {keras_version}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": None if memory is None else round(memory / 1e9, 1),
        "vector_instructions": _vector_instructions(),
        "threads": tf.config.threading.get_intra_op_parallelism_threads() or _threads_by_environment(),
        "onednn": os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        "gpus": _gpu_names(),
        "deterministic_ops": bool(is_op_determinism_enabled()),
    }


@functools.cache
def _commit() -> str | None:
    return commit_of(pathlib.Path(__file__).resolve().parents[2])


def commit_of(folder: pathlib.Path) -> str | None:
    """Return a checkout's commit, with `-dirty` if tracked code differs.

    `docs` does not count: no run reads it, and rows may be recorded while others are made. None without
    git and for an installed package, also one inside another repository.

    Args:
        folder: that holds `common`.
    """
    if not (folder / ".git").exists():  # installed as a package, perhaps below an unrelated checkout
        return None
    env = {name: value for name, value in os.environ.items() if name not in _SET_BY_HOOKS}
    ask = functools.partial(subprocess.run, cwd=folder, env=env, check=True, capture_output=True, text=True, timeout=10)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        ask(["git", "ls-files", "--error-unmatch", _KNOWN_FILE])
        commit = ask(["git", "rev-parse", "--short=12", "HEAD"]).stdout.strip()
        changed = ask(["git", "diff", "--name-only", "HEAD", "--", ".", *_NOT_OF_RUNS]).stdout
        return f"{commit}-dirty" if changed else commit
    return None


def _threads_by_environment() -> int | None:
    text = os.environ.get("TF_NUM_INTRAOP_THREADS", "")
    return int(text) if text.isdigit() and int(text) else None


def _vector_instructions() -> list[str] | None:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("flags"):
                return sorted(flag for flag in line.split() if flag.startswith(("avx", "amx", "fma")))
    return None


def _cpu_name() -> str | None:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _gpu_names() -> list[str]:
    devices = tf.config.list_physical_devices("GPU")
    details = [tf.config.experimental.get_device_details(device) for device in devices]
    return [detail.get("device_name", device.name) for detail, device in zip(details, devices)]
