"""Fitness of this machine for training, for `experiments.doctor`."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import tempfile

from common.commands.exit_code import GPU_DRIVERS, import_tensorflow
from common.errors import InvalidInput, check_keras

EXTRAS = {  # module by extra of pyproject.toml
    **{"heif": "pillow_heif", "keras-hub": "keras_hub", "mlflow": "mlflow", "onnx": "tf2onnx"},
    **{"parquet": "pyarrow", "serve": "fastapi", "slurm": "submitit", "tune": "optuna"},
    "wandb": "wandb",
}
GPU = "Device: GPU"  # with one, `device_line` begins so
_PROBE_BYTES = 2**20


def findings(cache_dir: str, runs_dir: str) -> tuple[dict[str, str], list[str]]:
    """Return what was found by its name, and problems that prevent training."""
    found, problems = _software()
    for name, folder in (("runs folder", runs_dir), ("cache folder", cache_dir)):
        found[name], problem = _room(folder)
        problems += [f"{name}: {problem}"] if problem else []
    there = {extra: importlib.util.find_spec(module) is not None for extra, module in EXTRAS.items()}
    found["extras installed"] = ", ".join(extra for extra in there if there[extra]) or "none"
    missing = ", ".join(extra for extra in there if not there[extra])
    found["extras missing"] = f"{missing} (pip install 'deep-metric-learning[EXTRA]')" if missing else "none"
    return found, problems


def _software() -> tuple[dict[str, str], list[str]]:
    """Return versions and devices, and problems with TensorFlow or Keras."""
    try:
        tf = import_tensorflow()
        from common.records import environment

        facts = environment()
        tf.reduce_sum(tf.ones([8, 8]) @ tf.ones([8, 8])).numpy()  # fails if a device is seen but unusable
    except Exception as error:  # noqa: BLE001  # whatever is wrong with it is what is asked for
        return {}, [f"TensorFlow does not work ({type(error).__name__}: {error}). Install it again."]
    commit = f", commit {facts['commit']}" if facts["commit"] else ""
    memory = f", {facts['memory_gb']} GB of memory" if facts["memory_gb"] else ""
    found = {
        "deep-metric-learning": f"{facts['version']}{commit}",
        "Python": facts["python"],
        **{name: facts[name.lower()] for name in ("TensorFlow", "Keras", "NumPy")},
        "processor": f"{facts['cpu'] or 'unknown'}, {facts['cores']} cores{memory}",
        "GPU": ", ".join(facts["gpus"]) or f"no GPU: {reason_of_no_gpu(tf.test.is_built_with_cuda())}",
    }
    try:
        check_keras(tf.keras)
    except InvalidInput as error:
        return found, [str(error)]
    from common.deployment import loading_risk  # imports TensorFlow

    if risk := loading_risk():
        found["models of others"] = risk
    return found, []


def reason_of_no_gpu(built_with_cuda: bool) -> str:
    """Return the likely reason why TensorFlow sees no GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    is_set = "" if visible is None else f"CUDA_VISIBLE_DEVICES={visible!r} is set, but "
    if visible is not None and visible.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={visible!r} hides all"
    if not built_with_cuda:
        return f"{is_set}this TensorFlow is built without CUDA"
    if not any(os.path.exists(path) for path in GPU_DRIVERS):
        return f"{is_set}no NVIDIA driver is loaded"
    others = " or it names none that this machine has" if is_set else ""
    return f"{is_set}the CUDA libraries cannot be loaded (pip install 'deep-metric-learning[gpu]'){others}"


def device_line() -> str:
    """Describe what this process trains on; without a GPU, why."""
    tf = import_tensorflow()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        names = (tf.config.experimental.get_device_details(each).get("device_name", each.name) for each in gpus)
        return f"{GPU}, {', '.join(names)}"
    from common.retrieval.search.blocked_search import available_threads  # imports TensorFlow

    return f"Device: CPU, {available_threads()} cores; no GPU seen ({reason_of_no_gpu(tf.test.is_built_with_cuda())})"


def _room(folder: str) -> tuple[str, str]:
    """Return a folder's free space, and a problem; nothing is left there."""
    place = pathlib.Path(folder).absolute()
    above = next(each for each in (place, *place.parents) if each.exists())
    found = f"{folder}{'' if above == place else ' (not there yet)'}"
    try:
        with tempfile.TemporaryFile(dir=above) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
    except OSError as error:
        return f"{found}: cannot be written", f"{above} cannot be written ({error.strerror or error})."
    return f"{found}: {shutil.disk_usage(above).free / 1e9:,.1f} GB free, can be written", ""
