"""Tensors of PyTorch and safetensors files, read without PyTorch.

No code in a file runs: of a pickle only the instructions are followed that build tensors, containers and plain values.
Each takes constant time, and the tensors together must fit into the file, so a small file takes little time and memory.
Three formats are read: the archive of `torch.save` (since 1.6), its older sequence of pickles (in which BN-Inception's
parameters are published), and `.safetensors`.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, ClassVar, NamedTuple

import ml_dtypes
import numpy as np

from common.errors import invalid

# Where training scripts keep the network among other values, and the prefix of DataParallel.
CONTAINERS = ("state_dict", "model_state_dict", "model")
PARALLEL_PREFIX = "module."
_DTYPES = {  # by PyTorch's and safetensors' names
    **{"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": ml_dtypes.bfloat16},
    **{"LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "|i1", "ByteStorage": "|u1"},
    **{"BoolStorage": "|b1", "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": ml_dtypes.bfloat16, "I64": "<i8"},
    **{"I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"},
}
_ZIP, _LEGACY_MAGIC = b"PK\x03\x04", 0x1950A86A20F9469CFC6C
_LARGEST_TABLE = 1_000_000  # bytes of a pickle or header; a thousand tensors take 150,000
_MOST_DIMENSIONS, _MOST_ARGUMENTS = 32, 8
_REFUSED = pickle.INST + pickle.OBJ + pickle.NEWOBJ_EX + pickle.BYTEARRAY8 + pickle.DICT  # PyTorch writes none of them
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
            arrays, others = _read_safetensors(file) if path.endswith(".safetensors") else _read_torch(file)
    except _UNREADABLE as error:
        raise invalid(
            "checkpoint",
            received=path,
            expected="a file of PyTorch or safetensors that holds tensors and plain values only",
            fix=f"Reading it failed: {error or type(error).__name__}. Files with other objects are refused, because "
            "reading these runs their code: where you trust the file, save its network.state_dict() alone.",
        ) from error
    if not arrays:
        raise invalid("checkpoint", received=path, expected="a dictionary of tensors, as network.state_dict() gives")
    prefix = PARALLEL_PREFIX if all(name.startswith(PARALLEL_PREFIX) for name in arrays) else ""
    return CheckpointFile({name[len(prefix) :]: _single(value) for name, value in arrays.items()}, others)


class _Storage(NamedTuple):
    """Place of numbers in a file: their type, key, and count."""

    dtype: np.dtype
    key: str
    length: int

    @property
    def num_bytes(self) -> int:
        return self.length * self.dtype.itemsize


class _Tensor(NamedTuple):
    """Tensor of a storage, in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def rebuilt(cls, storage: _Storage, offset: int, shape: tuple, strides: tuple, *_: object) -> _Tensor:
        """Check the arguments of `torch._utils._rebuild_tensor_v2`, which may be anything."""
        are_counts = all(map(_are_counts, ((offset,), shape, strides)))
        if not isinstance(storage, _Storage) or not are_counts or len(shape) != len(strides):
            raise ValueError("it has a tensor without storage, or of an invalid shape")
        return cls(storage, offset, shape, strides)

    def of(self, data: bytes) -> np.ndarray:
        """View the tensor in its storage's bytes; it may lie outside."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.storage.dtype)
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        if last >= self.storage.length or len(data) != self.storage.num_bytes:
            raise ValueError(f"a tensor of shape {self.shape} ends at {last} in {len(data)} bytes")
        numbers = np.frombuffer(data, self.storage.dtype)[self.offset :]
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, strides, writeable=False)


def _are_counts(values: object) -> bool:
    """Return True for a short sequence of integers from 0 to 2^63 - 1."""
    is_short = isinstance(values, (tuple, list)) and len(values) <= _MOST_DIMENSIONS
    return is_short and all(isinstance(each, int) and 0 <= each < 2**63 for each in values)  # type: ignore[attr-defined]


def _read_torch(file: BinaryIO) -> CheckpointFile:
    """Read the tensors of the network; those of an optimiser stay in the file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    is_archive = file.read(len(_ZIP)) == _ZIP
    file.seek(0)
    content, bytes_of = _open_archive(file) if is_archive else _open_pickles(file)
    if not isinstance(content, dict):
        return CheckpointFile({}, set())
    container = next((key for key in CONTAINERS if isinstance(content.get(key), dict)), None)
    state = content if container is None else content[container]
    tensors = {name: value for name, value in state.items() if isinstance(value, _Tensor)}
    storages = {tensor.storage for tensor in tensors.values()}
    elements = sum(math.prod(tensor.shape) for tensor in tensors.values())
    if elements > size or sum(storage.num_bytes for storage in storages) > size:
        raise ValueError(f"its tensors have {elements} numbers, too many for a file of {size} bytes")
    data = {storage: bytes_of(storage) for storage in storages}
    arrays = {name: tensor.of(data[tensor.storage]) for name, tensor in tensors.items()}
    return CheckpointFile(arrays, {*content, *state} - {container, *tensors})


def _open_archive(file: BinaryIO) -> tuple[object, Callable[[_Storage], bytes]]:
    """Open an archive: the pickle `data.pkl`, and an uncompressed entry per storage."""
    archive = zipfile.ZipFile(file)

    def entry(name: str, most: int) -> bytes:
        info = archive.getinfo(name)
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > most:
            raise ValueError(f"{name} has {info.file_size} bytes, more than {most}, or is compressed")
        return archive.read(info)

    names = archive.namelist()
    (name,) = [name for name in names if name.endswith("/data.pkl")] or ["data.pkl"]
    root = name.removesuffix("data.pkl")
    if f"{root}byteorder" in names and entry(f"{root}byteorder", len("little")) != b"little":
        raise ValueError("its numbers are big-endian")
    content = _Unpickler(io.BytesIO(entry(name, _LARGEST_TABLE)), {}).load()
    return content, lambda storage: entry(f"{root}data/{storage.key}", storage.num_bytes)


def _open_pickles(file: BinaryIO) -> tuple[object, Callable[[_Storage], bytes]]:
    """Open the older format: five pickles, then each storage's length and numbers."""
    storages: dict[str, _Storage] = {}
    head = io.BytesIO(file.read(_LARGEST_TABLE))
    if _Unpickler(head, storages).load() != _LEGACY_MAGIC:
        raise ValueError("it is no checkpoint of PyTorch")
    version, machine, content, keys = (_Unpickler(head, storages).load() for _ in range(4))
    if version != 1001 or not machine.get("little_endian", True):
        raise ValueError("it is of another version of the format, or its numbers are big-endian")
    places, end = {}, head.tell()
    for key in (key for key in keys if isinstance(key, str)):
        places[key] = end + 8
        end = places[key] + storages[key].num_bytes

    def bytes_of(storage: _Storage) -> bytes:
        file.seek(places[storage.key] - 8)
        if struct.unpack("<q", file.read(8)) != (storage.length,):
            raise ValueError("a storage has another length than its tensors state")
        return file.read(storage.num_bytes)

    return content, bytes_of


class _Unpickler(pickle._Unpickler):
    """Builds tensors, containers and plain values, in time that grows with the pickle.

    The functions of `_FUNCTIONS` are called, and no others. Only texts are hashed: a tuple may contain the same tuple
    twice, which contains ...

    Args:
        file: with the pickle, in memory.
        storages: receives the storages of tensors, by key.
    """

    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list]

    def __init__(self, file: io.BytesIO, storages: dict[str, _Storage]) -> None:
        super().__init__(file)
        self._storages = storages

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        def refused(*_: object) -> None:
            raise pickle.UnpicklingError(f"it holds an object of {module}.{name}")

        return _FUNCTIONS.get(f"{module} {name}", refused)

    def persistent_load(self, reference: Any) -> _Storage:  # noqa: ANN401
        kind, dtype, key, _, count, *views = reference[:6]
        is_known = kind == "storage" and dtype in [*_DTYPES.values()] and isinstance(key, str)
        if not is_known or not _are_counts((count,)) or any(views):
            raise pickle.UnpicklingError("it refers to numbers of an unknown kind")
        self._storages[key] = storage = _Storage(np.dtype(dtype), key, count)
        return storage

    def _call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(arguments, tuple) or len(arguments) > _MOST_ARGUMENTS:
            raise pickle.UnpicklingError("it calls a function with too many arguments")
        self.append(function(*arguments))

    def _set_items(self) -> None:
        values = self.pop_mark()
        self.stack[-1].update(_named(values))

    def _set_item(self) -> None:
        value, name = self.stack.pop(), self.stack.pop()
        self.stack[-1].update(_named([name, value]))

    _plain = pickle._Unpickler.dispatch
    _own: ClassVar[dict[int, Any]] = {
        **{pickle.REDUCE[0]: _call, pickle.NEWOBJ[0]: _call},
        **{pickle.SETITEM[0]: _set_item, pickle.SETITEMS[0]: _set_items},
        pickle.BUILD[0]: _plain[pickle.POP[0]],  # attributes
        pickle.EMPTY_SET[0]: _plain[pickle.EMPTY_LIST[0]],  # sets become lists
        pickle.FROZENSET[0]: _plain[pickle.LIST[0]],
        pickle.ADDITEMS[0]: _plain[pickle.APPENDS[0]],
    }
    dispatch = {code: load for code, load in {**_plain, **_own}.items() if code not in _REFUSED}


def _named(values: list) -> dict[str, Any]:
    """Return alternating names and values as a dictionary, without other keys."""
    return {name: value for name, value in zip(values[::2], values[1::2]) if isinstance(name, str)}


def _ordered(pairs: list | None = None) -> dict:
    """Return a `collections.OrderedDict`."""
    found = _named([value for name, content in pairs or () for value in (name, content)])
    if pairs:
        pairs.clear()  # they are Python 2's; no list is read twice
    return found


_FUNCTIONS: dict[str, Any] = {
    **{f"torch {name}": dtype for name, dtype in _DTYPES.items()},
    "collections OrderedDict": _ordered,
    **dict.fromkeys(("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2"), _Tensor.rebuilt),
    "torch._utils _rebuild_parameter": lambda data, *_: data,
    "torch Size": lambda sizes=(): sizes,
}


def _read_safetensors(file: BinaryIO) -> CheckpointFile:
    import safetensors

    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LARGEST_TABLE:  # the package would read 100 MB
        raise ValueError(f"its header has {length} bytes, more than {_LARGEST_TABLE}")
    file.seek(0)
    try:
        tensors = dict(safetensors.deserialize(file.read()))
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error
    of_each = {name: np.frombuffer(one["data"], _DTYPES[one["dtype"]]) for name, one in tensors.items()}
    return CheckpointFile({name: of_each[name].reshape(one["shape"]) for name, one in tensors.items()}, set())


def _single(value: np.ndarray) -> np.ndarray:
    is_integer = np.issubdtype(value.dtype, np.integer) or value.dtype == bool
    return value.astype(value.dtype.newbyteorder("=") if is_integer else np.float32)
