"""Parameter files: `.npz` archives with one array per parameter, and checkpoints.

A record in an `.npz` names the file that they come from.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Container, Mapping
from typing import NamedTuple

import numpy as np

from common.backbones.checkpoint_files import is_checkpoint, read_checkpoint
from common.errors import invalid
from common.files import check_unpacked_size, write_atomically

# Entries that are no parameters: the SHA-256 of the file that was converted, and of the parameters as they were then.
_SOURCE_ENTRY, _PARAMETERS_ENTRY = "source_sha256", "parameters_sha256"
# A parameter of each network that can be converted, by the name that it has nowhere else.
OWN_NAMES = {
    "bn_inception": "inception_5b_pool_proj.weight",
    "resnet50": "layer4.2.conv3.weight",
    "mobilenet_v2": "features.18.0.weight",
    "efficientnet_lite0": "conv_stem.weight",
}
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


class ParameterRecord(NamedTuple):
    """The record in a converted file.

    Attributes:
        source_sha256: of the file that was converted.
        parameters_sha256: of names, shapes and values; the same for every conversion of that file.
    """

    source_sha256: str
    parameters_sha256: str


def check_weights_file(path: str | os.PathLike) -> str | os.PathLike:
    """Return `path` if the file exists, else raise `InvalidInput`."""
    if not os.path.isfile(path):
        raise invalid(
            "weights", received=os.fspath(path), expected='"none", "imagenet" or the path of an existing file'
        )
    return path


def read_arrays(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Read all parameters of an `.npz` file or checkpoint by name, without the record.

    No code in the file runs, see `read_checkpoint`.

    Raises:
        InvalidInput: there is no such file, or it is damaged or of another kind.
    """
    if is_checkpoint(check_weights_file(path)):
        return read_checkpoint(path).arrays
    entries = _read_entries(path)
    return {name: value for name, value in entries.items() if name not in (_SOURCE_ENTRY, _PARAMETERS_ENTRY)}


def read_record(path: str | os.PathLike) -> ParameterRecord | None:
    """Read the record of a converted file.

    None without a record, or if the parameters are not the converted ones.

    Raises:
        InvalidInput: as `read_arrays`.
    """
    entries = _read_entries(path)
    stated = [str(entries.pop(name, "")) for name in (_SOURCE_ENTRY, _PARAMETERS_ENTRY)]
    record = ParameterRecord(*stated)
    return record if all(stated) and parameters_digest(entries) == record.parameters_sha256 else None


def write_arrays(path: str | os.PathLike, arrays: Mapping[str, np.ndarray], source_sha256: str | None = None) -> None:
    """Write parameters by name to an `.npz` file, which appears when complete.

    Args:
        path: ends with ".npz".
        arrays: by name.
        source_sha256: of the published file that they come from, for the record; None: no record.

    Raises:
        InvalidInput: another extension, or a place that is not writable.
    """
    path = os.fspath(path)
    if not path.endswith(".npz"):
        raise invalid("path of the parameters", received=path, expected='a name that ends with ".npz"')
    record = {_SOURCE_ENTRY: source_sha256, _PARAMETERS_ENTRY: parameters_digest(arrays)} if source_sha256 else {}
    try:
        # NumPy's stub takes each of the arrays for `allow_pickle`, too.
        write_atomically(path, lambda file: np.savez(file, **arrays, **record))  # type: ignore[arg-type]
    except OSError as error:
        raise invalid(
            "path of the parameters", received=path, expected="a place that can be written to", fix=f"{error}."
        ) from error


def parameters_digest(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of names, types, shapes and values, in hexadecimal.

    The order of the names does not matter.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {value.dtype.str} {value.shape} ".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def network_of_file(path: str | os.PathLike) -> str | None:
    """Return the network whose parameters a file holds, or None.

    A name that no other network has identifies it.

    Raises:
        InvalidInput: as `read_arrays`.
    """
    check_weights_file(path)
    if is_checkpoint(path):
        return _network_of(read_arrays(path))
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = set(archive.files)
    except (*_UNREADABLE, AttributeError, TypeError):
        return None  # a full read reports the error
    return _network_of(names)


def _network_of(names: Container[str]) -> str | None:
    return next((network for network, name in OWN_NAMES.items() if name in names), None)


def _read_entries(path: str | os.PathLike) -> dict[str, np.ndarray]:
    check_weights_file(path)
    try:
        check_unpacked_size(path)
        archive = np.load(path, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it is a single array")
        with archive:
            if any(name.endswith("data.pkl") for name in archive.files):
                raise ValueError("it is a PyTorch file under another name; give it the ending .pth")
            return {name: archive[name] for name in archive.files}
    except _UNREADABLE as error:
        raise invalid(
            "weights",
            received=os.fspath(path),
            expected="an .npz file with one array per parameter, or a checkpoint (.pth, .pt, .safetensors)",
            fix=f"Reading it failed: {error}.",
        ) from error
