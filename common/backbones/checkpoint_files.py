"""Tensors of PyTorch and safetensors files, read without PyTorch.

No code in a file runs: a pickle may name tensors, containers and plain types only, and every tensor must lie within
its storage. Three formats are read: the archive of `torch.save` (since 1.6), its older sequence of pickles (in which
BN-Inception's parameters are published), and `.safetensors`.
"""

from __future__ import annotations

import collections
import io
import json
import math
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO, NamedTuple

import numpy as np

from common.errors import invalid

# Where training scripts keep the network among other values, and the prefix of DataParallel.
CONTAINERS = ("state_dict", "model_state_dict", "model")
PARALLEL_PREFIX = "module."
_BFLOAT16 = "bfloat16"  # NumPy lacks it
_STORAGES = {
    **{"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": _BFLOAT16},
    **{"LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "|i1", "ByteStorage": "|u1"},
    "BoolStorage": "|b1",
}
_SAFETENSORS = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": _BFLOAT16, "I64": "<i8", "I32": "<i4", "I16": "<i2"},
    **{"I8": "|i1", "U8": "|u1", "BOOL": "|b1"},
}
_ZIP, _LEGACY_MAGIC = b"PK\x03\x04", 0x1950A86A20F9469CFC6C
_LARGEST_HEADER = 100_000_000  # bytes, as in safetensors' own reader
_UNREADABLE = (
    *(OSError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, MemoryError),
    *(OverflowError, struct.error, pickle.UnpicklingError, zipfile.BadZipFile, zlib.error, NotImplementedError),
)


class CheckpointFile(NamedTuple):
    """The content of a checkpoint.

    Attributes:
        arrays: tensors by name; floating-point numbers as float32, others unchanged.
        others: names of values that are no tensors.
    """

    arrays: dict[str, np.ndarray]
    others: set[str]


def is_checkpoint(path: str | os.PathLike) -> bool:
    """Return True if a file's name ends like a checkpoint's of PyTorch or safetensors."""
    return os.fspath(path).endswith((".pth", ".pt", ".bin", ".ckpt", ".tar", ".safetensors"))


def read_checkpoint(path: str | os.PathLike) -> CheckpointFile:
    """Read the tensors of a checkpoint by name.

    The tensors may be nested in a training script's dictionary, and names may have DataParallel's prefix "module.".

    Args:
        path: of a `torch.save` file that holds tensors and plain values only, or of a `.safetensors` file.

    Raises:
        InvalidInput: the file is damaged, holds other objects, or holds no dictionary of tensors.
    """
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            found = _arrays(_read_safetensors(file) if path.endswith(".safetensors") else _read_torch(file))
    except _UNREADABLE as error:
        raise invalid(
            "checkpoint",
            received=path,
            expected="a file of PyTorch or safetensors that holds tensors and plain values only",
            fix=f"Reading it failed: {error or type(error).__name__}. Files with other objects are refused, because "
            "reading these runs their code: where you trust the file, save its network.state_dict() alone.",
        ) from error
    if not found.arrays:
        raise invalid("checkpoint", received=path, expected="a dictionary of tensors, as network.state_dict() gives")
    return found


class _Storage(NamedTuple):
    """Place of numbers in a file: their type, key, and count."""

    dtype: str
    key: str
    length: int


class _Tensor(NamedTuple):
    """Tensor of a storage, in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """Take the tensor from its storage's numbers `[count]`.

        Raises:
            ValueError: it does not lie within them.
        """
        counts = [self.offset, *self.shape, *self.strides]
        if not all(isinstance(count, int) and count >= 0 for count in counts) or len(self.shape) != len(self.strides):
            raise ValueError(f"a tensor of offset, shape and strides {counts}")
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        elements = math.prod(self.shape)
        if elements and (last >= len(numbers) or elements > len(numbers)):
            raise ValueError(f"a tensor of {elements} elements up to {last} in a storage of {len(numbers)}")
        if not elements:
            return np.zeros(self.shape, numbers.dtype)
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.array(np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, strides))


class _Call:
    """Callable that a pickle may name; it has no attributes to change."""

    __slots__ = ()


class _RebuildTensor(_Call):
    """`torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`."""

    __slots__ = ()

    def __call__(self, storage: _Storage, offset: int, shape: tuple, strides: tuple, *_: object) -> _Tensor:
        if not isinstance(storage, _Storage):
            raise ValueError("a tensor without storage")
        return _Tensor(storage, offset, tuple(shape), tuple(strides))


class _RebuildParameter(_Call):
    """`torch._utils._rebuild_parameter`."""

    __slots__ = ()

    def __call__(self, data: _Tensor, *_: object) -> _Tensor:
        return data


class _Size(_Call):
    """`torch.Size`."""

    __slots__ = ()

    def __call__(self, sizes: tuple = ()) -> tuple[int, ...]:
        return tuple(sizes)


_NAMES = {
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("torch._utils", "_rebuild_tensor"): _RebuildTensor(),
    ("torch._utils", "_rebuild_tensor_v2"): _RebuildTensor(),
    ("torch._utils", "_rebuild_parameter"): _RebuildParameter(),
    ("torch", "Size"): _Size(),
    **{("torch", name): dtype for name, dtype in _STORAGES.items()},
}


class _Unpickler(pickle.Unpickler):
    """Unpickler of tensors, containers and plain values."""

    def find_class(self, module: str, name: str) -> object:
        """Return the substitute of a name that is safe."""
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it holds an object of {module}.{name}")
        return _NAMES[module, name]

    def persistent_load(self, pid: tuple) -> _Storage:
        """Return the place of a tensor's numbers."""
        kind, dtype, key, _, count, *views = pid
        if kind != "storage" or dtype not in _STORAGES.values() or not isinstance(count, int) or any(views):
            raise pickle.UnpicklingError(f"it refers to {kind!r} of {dtype!r}")
        return _Storage(dtype, str(key), count)


def _read_torch(file: BinaryIO) -> object:
    begin = file.read(len(_ZIP))
    file.seek(0)
    content, numbers = _read_archive(file) if begin == _ZIP else _read_pickles(file)
    return _with_arrays(content, numbers)


def _read_archive(file: BinaryIO) -> tuple[object, dict[_Storage, np.ndarray]]:
    """Read an archive: the pickle `data.pkl`, and an uncompressed entry per storage."""
    with zipfile.ZipFile(file) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/data.pkl")] or ["data.pkl"]
        root = name.removesuffix("data.pkl")
        if f"{root}byteorder" in archive.namelist() and archive.read(f"{root}byteorder") != b"little":
            raise ValueError("its numbers are big-endian")
        content = _Unpickler(io.BytesIO(_entry(archive, name))).load()
        storages = {tensor.storage for tensor in _tensors(content)}
        return content, {one: _numbers(_entry(archive, f"{root}data/{one.key}"), one) for one in storages}


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which PyTorch never does")
    return archive.read(name)


def _read_pickles(file: BinaryIO) -> tuple[object, dict[_Storage, np.ndarray]]:
    """Read the older format: five pickles, then the storages."""
    if not _is_legacy(file):
        raise ValueError("it is no checkpoint of PyTorch")
    _, version, machine, content, keys = [_Unpickler(file).load() for _ in range(5)]
    if version != 1001 or not machine.get("little_endian", True):
        raise ValueError(f"it has version {version} of the format, or big-endian numbers")
    by_key = {tensor.storage.key: tensor.storage for tensor in _tensors(content)}
    numbers = {}
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        storage = by_key.get(key)
        if storage is None or storage.length != count:
            raise ValueError(f"its storage {key} is of no tensor, or of another length")
        numbers[storage] = _numbers(file.read(count * _item_size(storage.dtype)), storage)
    return content, numbers


def _is_legacy(file: BinaryIO) -> bool:
    """Return True if a file begins with the pickled magic number."""
    begin = pickle.dumps(_LEGACY_MAGIC, protocol=2)
    found = file.read(len(begin))
    file.seek(0)
    return found == begin


def _read_safetensors(file: BinaryIO) -> dict[str, np.ndarray]:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LARGEST_HEADER:
        raise ValueError(f"its header has {length} bytes")
    header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    body, arrays = file.read(), {}
    for name, entry in header.items():
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        storage = _Storage(_SAFETENSORS[entry["dtype"]], name, math.prod(shape))
        if not 0 <= begin <= end <= len(body) or any(size < 0 for size in shape):
            raise ValueError(f"{name} lies outside of the file")
        arrays[name] = _numbers(body[begin:end], storage).reshape(shape)
    return arrays


def _item_size(dtype: str) -> int:
    return 2 if dtype == _BFLOAT16 else np.dtype(dtype).itemsize


def _numbers(data: bytes, storage: _Storage) -> np.ndarray:
    """Return a storage's numbers `[count]`; bfloat16 as float32."""
    if len(data) != storage.length * _item_size(storage.dtype):
        raise ValueError(f"storage {storage.key} has {len(data)} bytes, not {storage.length} of {storage.dtype}")
    if storage.dtype == _BFLOAT16:
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(data, storage.dtype)


def _tensors(content: object) -> list[_Tensor]:
    """List the tensors in nested dictionaries and sequences."""
    if isinstance(content, _Tensor):
        return [content]
    if isinstance(content, Mapping):
        return [tensor for value in content.values() for tensor in _tensors(value)]
    if isinstance(content, (list, tuple)) and not isinstance(content, _Storage):
        return [tensor for value in content for tensor in _tensors(value)]
    return []


def _with_arrays(content: object, numbers: Mapping[_Storage, np.ndarray]) -> object:
    """Replace the tensors of nested dictionaries by arrays; sequences hold no named ones."""
    if isinstance(content, _Tensor):
        return content.of(numbers[content.storage])
    if isinstance(content, Mapping):
        return {name: _with_arrays(value, numbers) for name, value in content.items()}
    return content


def _arrays(content: object) -> CheckpointFile:
    """Return the tensors of a checkpoint by plain name."""
    if not isinstance(content, dict):
        return CheckpointFile({}, set())
    container = next((key for key in CONTAINERS if isinstance(content.get(key), dict)), None)
    state = content if container is None else content[container]
    tensors = {str(name): value for name, value in state.items() if isinstance(value, np.ndarray)}
    others = {str(name) for name in (*content, *state)} - {container, *tensors}
    prefix = PARALLEL_PREFIX if all(name.startswith(PARALLEL_PREFIX) for name in tensors) else ""
    return CheckpointFile({name[len(prefix) :]: _single(value) for name, value in tensors.items()}, others)


def _single(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32 if np.issubdtype(value.dtype, np.floating) else value.dtype.newbyteorder("="))
