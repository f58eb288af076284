"""Conversion of published parameters (PyTorch's files or `.npz`) for `--weights`."""

from __future__ import annotations

import os

import numpy as np

from common import backbones
from common.downloads import Fingerprint, download, file_digest, mirrored
from common.errors import InvalidInput, check_choice, invalid

# Before 2.10, files exist that run code of their own in spite of weights_only=True (CVE-2025-32434, CVE-2026-24747).
SAFE_TORCH = (2, 10)
CONTAINERS = ("state_dict", "model_state_dict", "model")
PARALLEL_PREFIX = "module."
BACKBONES: dict[str, dict[str, str]] = {  # the arguments of each, of `common.backbones`
    "bn_inception": {},
    "efficientnet_lite0": {},
    "mobilenet_v2": {},
    "resnet50": {"layout": "torchvision"},
    "vit_base_16": {},
    "vit_small_16": {},
}


def fetch_checkpoint(backbone: str, folder: str, mirror: str | None = None) -> str:
    """Return the path of a network's published checkpoint, fetched unless it exists.

    Args:
        backbone: one of `BACKBONES`.
        folder: of the file.
        mirror: address of a folder with the published file, tried before the original one.

    Raises:
        InvalidInput: none is published; PyTorch, which reads it, is missing; or the download fails.
    """
    checkpoints = backbones.checkpoints_of(backbone)
    if not checkpoints:
        raise InvalidInput(f"No published checkpoint of {backbone} is known here. Give a file: --input=FILE.")
    safe_torch()
    checkpoint = checkpoints[0]
    path, published = os.path.join(folder, checkpoint.name), Fingerprint(sha256=checkpoint.digest_prefix)
    if os.path.exists(path):
        complaint = published.complaint(path)
        if complaint:
            raise InvalidInput(f"{path} is not the published file: {complaint}. Move it away, or give it by --input.")
    else:
        try:
            download(mirrored(checkpoint.name, mirror, [checkpoint.url]), path, published)
        except InvalidInput as error:
            raise InvalidInput(
                f"{error} Or get {checkpoint.name} from anywhere else (its SHA-256 starts with "
                f"{checkpoint.digest_prefix}), and give --input={checkpoint.name}; or name another server: --mirror."
            ) from error
    return path


def describe_source(backbone: str, sha256: str) -> str:
    """Describe the file with this SHA-256 in words."""
    checkpoint = backbones.published_checkpoint(backbone, sha256)
    if checkpoint is None:
        return f"a file that is no published ImageNet checkpoint of {backbone} known here (SHA-256 {sha256})"
    return f"{checkpoint.title}: {checkpoint.name} (SHA-256 {sha256})"


def convert(backbone: str, source: str, output: str, ignore: tuple[str, ...] = ()) -> backbones.LoadedParameters:
    """Write the parameters of `backbone` in `source` to `output`.

    The output records the SHA-256 of `source`; if `source` is an `.npz` with such a record, that is copied.

    Args:
        backbone: one of `BACKBONES`.
        source: a PyTorch checkpoint, or an `.npz` file with PyTorch's names.
        output: path of the `.npz` file, written atomically.
        ignore: prefixes of names in the file that belong to no backbone (a head other than the usual classifier).

    Returns:
        The names written, and those in the file that were left over.

    Raises:
        InvalidInput: an unknown backbone; a file that cannot be read safely; missing names, or shapes that do not fit.
    """
    check_choice("--backbone", backbone, BACKBONES)
    check_output(output)
    is_ours = source.endswith(".npz")
    arrays, others = (backbones.read_arrays(source), set()) if is_ours else read_checkpoint(source)
    record = backbones.read_record(source) if is_ours else None
    left_out = {name for name in arrays if ignore and name.startswith(ignore)}
    model = getattr(backbones, backbone)(weights="none", **BACKBONES[backbone])
    kept = {name: value for name, value in arrays.items() if name not in left_out}
    if backbone.startswith("vit_"):
        kept = backbones.with_timm_names(kept)
    result = backbones.assign_parameters(model, kept, source=source)
    source_sha256 = record.source_sha256 if record else file_digest(source)
    backbones.save_parameters(model, output, source_sha256=source_sha256)
    return backbones.LoadedParameters(result.loaded, tuple(sorted({*result.ignored, *left_out, *others})))


def check_output(path: str) -> None:
    """Raise `InvalidInput` unless `path` is an `.npz` in an existing folder."""
    if not path.endswith(".npz") or not os.path.isdir(os.path.dirname(path) or "."):
        raise invalid("--output", received=path, expected="a name that ends with .npz, in a folder that exists")


def read_checkpoint(path: str) -> tuple[dict[str, np.ndarray], set[str]]:
    """Return a PyTorch checkpoint's tensors by name, and its other names.

    No code in the file is run. The tensors may be nested in a training script's dictionary, and names may have
    DataParallel's prefix "module.".

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
    """Return the module `torch`; raise `InvalidInput` unless it reads safely."""
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
    """Return a checkpoint's tensors as arrays by plain name, and other names."""
    if not isinstance(content, dict):
        return {}, set()
    container = next((key for key in CONTAINERS if isinstance(content.get(key), dict)), None)
    state = content if container is None else content[container]
    tensors = {str(name): value for name, value in state.items() if torch.is_tensor(value)}
    others = {str(name) for name in (*content, *state)} - {container, *tensors}
    prefix = PARALLEL_PREFIX if all(name.startswith(PARALLEL_PREFIX) for name in tensors) else ""
    return {name[len(prefix) :]: _array(tensor, torch) for name, tensor in tensors.items()}, others


def _array(tensor, torch) -> np.ndarray:
    """Return floating-point numbers as float32, others (counters) unchanged."""
    tensor = tensor.detach()
    return (tensor.to(torch.float32) if tensor.is_floating_point() else tensor).numpy()
