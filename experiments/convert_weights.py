"""Turns published parameters of a backbone into the `.npz` file that `--weights` reads.

Regenerates: no table; the ImageNet parameters that every photograph experiment of chapters 3 and 5 starts from.
Command: python -m experiments.convert_weights --backbone=bn_inception --input=bn_inception-52deb4733.pth
    --output=bn_inception.npz
Expected: features equal to PyTorch's to 1e-4 of the largest (tests/common/backbones).
Cost: seconds on a CPU. PyTorch is needed for its own files only, and nothing else in this project needs it.
"""

from __future__ import annotations

import functools
import os

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    import numpy as np

    from common import backbones
    from common.ops.checks import InvalidInput, check_choice, invalid
    from experiments import flags as experiment_flags

# Before 2.10, files exist that run code of their own in spite of weights_only=True (CVE-2025-32434, CVE-2026-24747).
SAFE_TORCH = (2, 10)
CONTAINERS = ("state_dict", "model_state_dict", "model")
PARALLEL_PREFIX = "module."

BACKBONES = {
    "bn_inception": backbones.bn_inception,
    "efficientnet_lite0": backbones.efficientnet_lite0,
    "mobilenet_v2": backbones.mobilenet_v2,
    "resnet50": functools.partial(backbones.resnet50, layout="torchvision"),
}


def main() -> None:
    """Reads, checks, writes, and reports every name that was left over."""
    values = flags.FLAGS
    check_output(values.output)
    result = convert(values.backbone, values.input, values.output, tuple(values.ignore))
    size = os.path.getsize(values.output) / 2**20
    print(f"{values.output}: {len(result.loaded)} parameters of {values.backbone}, {size:.1f} MiB.")
    print(f"Left over ({len(result.ignored)}): {', '.join(result.ignored) or 'none'}")


def convert(backbone: str, source: str, output: str, ignore: tuple[str, ...] = ()) -> backbones.LoadedParameters:
    """Writes the parameters of `backbone` in `source` to `output`, if all of them are there and fit.

    Args:
        backbone: one of `BACKBONES`.
        source: a PyTorch checkpoint, or an `.npz` file with PyTorch's names.
        output: path of the `.npz` file; it appears when it is complete.
        ignore: beginnings of names in the file that belong to no backbone (another head than the usual classifier).

    Returns:
        The names that were written, and those in the file that were left over.

    Raises:
        InvalidInput: an unknown backbone; a file that cannot be read, or not safely; names or shapes that do not fit.
    """
    check_choice("--backbone", backbone, BACKBONES)
    check_output(output)
    arrays, others = (backbones.read_arrays(source), set()) if source.endswith(".npz") else read_checkpoint(source)
    left_out = {name for name in arrays if ignore and name.startswith(ignore)}
    model = BACKBONES[backbone](weights="none")
    kept = {name: value for name, value in arrays.items() if name not in left_out}
    result = backbones.assign_parameters(model, kept, source=source)
    backbones.save_parameters(model, output)
    return backbones.LoadedParameters(result.loaded, tuple(sorted({*result.ignored, *left_out, *others})))


def check_output(path: str) -> None:
    """Raises `InvalidInput` unless `path` is a name for an `.npz` file in a folder that exists."""
    if not path.endswith(".npz") or not os.path.isdir(os.path.dirname(path) or "."):
        raise invalid("--output", received=path, expected="a name that ends with .npz, in a folder that exists")


def read_checkpoint(path: str) -> tuple[dict[str, np.ndarray], set[str]]:
    """The tensors of a PyTorch checkpoint by name, and the names of what else it holds; no code in it is run.

    The tensors may be inside the dictionary of a training script, and their names may carry DataParallel's "module.".

    Raises:
        InvalidInput: PyTorch is missing or too old to read safely, or the file holds no dictionary of tensors.
    """
    if not os.path.isfile(path):
        raise invalid("--input", received=path, expected="the path of a PyTorch checkpoint or of an .npz file")
    torch = safe_torch()
    try:
        arrays, others = _arrays(torch.load(path, map_location="cpu", weights_only=True), torch)
    except Exception as error:  # a file that is damaged, or not PyTorch's, can fail in any way
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise invalid(
            "--input",
            received=path,
            expected="a PyTorch checkpoint that holds tensors and plain values only",
            fix=f"PyTorch says: {reason} Files with other objects are not read, because reading them runs their code: "
            "where you trust the file, save its network.state_dict() alone.",
        ) from error
    if not arrays:
        raise invalid("--input", received=path, expected="a dictionary of tensors, as network.state_dict() gives")
    return arrays, others


def safe_torch():
    """The module `torch`, if it is installed and reads `weights_only` files safely; else raises `InvalidInput`."""
    try:
        import torch
    except ImportError as error:
        raise InvalidInput(
            "PyTorch is needed to read its files, and is not installed. Install it (pip install torch), here or on any "
            "other machine with this repository, convert there, and copy the .npz file."
        ) from error
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < SAFE_TORCH:
        raise invalid(
            "version of PyTorch",
            received=torch.__version__,
            expected="2.10 or newer",
            fix="Older ones can be made to run code that is hidden in a file. Upgrade: pip install --upgrade torch.",
        )
    return torch


def _arrays(content, torch) -> tuple[dict[str, np.ndarray], set[str]]:
    """The tensors in a checkpoint's dictionary as arrays by plain name, and its other names."""
    if not isinstance(content, dict):
        return {}, set()
    container = next((key for key in CONTAINERS if isinstance(content.get(key), dict)), None)
    state = content if container is None else content[container]
    tensors = {str(name): value for name, value in state.items() if torch.is_tensor(value)}
    others = {str(name) for name in (*content, *state)} - {container, *tensors}
    prefix = PARALLEL_PREFIX if all(name.startswith(PARALLEL_PREFIX) for name in tensors) else ""
    return {name[len(prefix) :]: _array(tensor, torch) for name, tensor in tensors.items()}, others


def _array(tensor, torch) -> np.ndarray:
    """Floating-point numbers of any precision as float32; others (counters) as they are."""
    tensor = tensor.detach()
    return (tensor.to(torch.float32) if tensor.is_floating_point() else tensor).numpy()


def define_flags() -> None:
    """Defines the command's flags."""
    flags.DEFINE_string("backbone", "bn_inception", f"Network: one of {', '.join(BACKBONES)}.")
    flags.DEFINE_string("input", None, "PyTorch checkpoint (.pth, .pt, .bin, ...) or .npz file.", required=True)
    flags.DEFINE_string("output", None, "The .npz file to write.", required=True)
    flags.DEFINE_list("ignore", [], "Beginnings of names in the file that are not the backbone's, such as a head.")


if __name__ == "__main__":
    define_flags()
    experiment_flags.run_command(main)
