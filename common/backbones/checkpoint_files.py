"""Tensors of PyTorch and safetensors files, read without PyTorch.

No code in a file runs: of a pickle only the instructions are followed that build tensors, containers and plain values.
Each takes constant time, and the tensors together must fit into the file, so a small file takes little time and memory.
Three formats are read: the archive of `torch.save` (since 1.6), its older sequence of pickles (in which BN-Inception's
parameters are published), and `.safetensors`.
"""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import pickletools
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from common.errors import invalid

# Where training scripts keep the network among other values, and the prefix of DataParallel.
CONTAINERS = ("state_dict", "model_state_dict", "model")
PARALLEL_PREFIX = "module."
_BFLOAT16 = "bfloat16"  # NumPy lacks it
_STORAGES = {
    **{"torch DoubleStorage": "<f8", "torch FloatStorage": "<f4", "torch HalfStorage": "<f2"},
    **{"torch BFloat16Storage": _BFLOAT16, "torch LongStorage": "<i8", "torch IntStorage": "<i4"},
    **{"torch ShortStorage": "<i2", "torch CharStorage": "|i1", "torch ByteStorage": "|u1", "torch BoolStorage": "|b1"},
}
_SAFETENSORS = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": _BFLOAT16, "I64": "<i8", "I32": "<i4", "I16": "<i2"},
    **{"I8": "|i1", "U8": "|u1", "BOOL": "|b1"},
}
_ZIP, _LEGACY_MAGIC = b"PK\x03\x04", 0x1950A86A20F9469CFC6C
_LARGEST_TABLE = 1_000_000  # bytes of a pickle or header; a thousand tensors take 150,000
_LARGEST_NOTE = 16  # bytes of the name of a byte order
_MOST_DIMENSIONS, _MOST_ARGUMENTS = 32, 8
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

    dtype: str
    key: str
    length: int

    @property
    def num_bytes(self) -> int:
        """Bytes of all numbers."""
        return self.length * (2 if self.dtype == _BFLOAT16 else np.dtype(self.dtype).itemsize)

    def numbers(self, data: bytes) -> np.ndarray:
        """Return the numbers `[count]` of their bytes; bfloat16 as float32."""
        if len(data) != self.num_bytes:
            raise ValueError(f"storage {self.key} has {len(data)} bytes, not {self.length} of {self.dtype}")
        if self.dtype == _BFLOAT16:
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        return np.frombuffer(data, self.dtype)


class _Tensor(NamedTuple):
    """Tensor of a storage, in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def rebuilt(cls, storage: _Storage, offset: int, shape: tuple, strides: tuple, *_: object) -> _Tensor:
        """Check the arguments of `torch._utils._rebuild_tensor_v2`, which may be anything."""
        if not isinstance(storage, _Storage) or not all(map(_are_counts, ((offset,), shape, strides))):
            raise ValueError("it has a tensor without storage, or of an invalid shape")
        if len(shape) != len(strides):
            raise ValueError(f"it has a tensor of shape {shape} and strides {strides}")
        return cls(storage, offset, shape, strides)

    def of(self, numbers: np.ndarray) -> np.ndarray:
        """View the tensor in its storage's numbers `[count]`.

        Raises:
            ValueError: it does not lie within them.
        """
        if 0 in self.shape:
            return np.zeros(self.shape, numbers.dtype)
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        if last >= len(numbers):
            raise ValueError(f"a tensor of shape {self.shape} ends at {last} in a storage of {len(numbers)}")
        strides = [stride * numbers.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers[self.offset :], self.shape, strides, writeable=False)


def _are_counts(values: object) -> bool:
    """Return True for a short sequence of integers from 0 to 2^63 - 1."""
    if not isinstance(values, (tuple, list)) or len(values) > _MOST_DIMENSIONS:
        return False
    return all(isinstance(each, int) and 0 <= each < 2**63 for each in values)


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
    numbers = {storage: storage.numbers(bytes_of(storage)) for storage in storages}
    arrays = {name: tensor.of(numbers[tensor.storage]) for name, tensor in tensors.items()}
    return CheckpointFile(arrays, {*content, *state} - {container, *tensors})


def _open_archive(file: BinaryIO) -> tuple[object, Callable[[_Storage], bytes]]:
    """Open an archive: the pickle `data.pkl`, and an uncompressed entry per storage."""
    archive = zipfile.ZipFile(file)
    names = archive.namelist()
    (name,) = [name for name in names if name.endswith("/data.pkl")] or ["data.pkl"]
    root = name.removesuffix("data.pkl")
    if f"{root}byteorder" in names and _entry(archive, f"{root}byteorder", _LARGEST_NOTE) != b"little":
        raise ValueError("its numbers are big-endian")
    content = _unpickled(io.BytesIO(_entry(archive, name, _LARGEST_TABLE)), {})
    return content, lambda storage: _entry(archive, f"{root}data/{storage.key}", storage.num_bytes)


def _entry(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    info = archive.getinfo(name)
    if info.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which PyTorch never does")
    if info.file_size > most:
        raise ValueError(f"{name} has {info.file_size} bytes, more than {most}")
    return archive.read(info)


def _open_pickles(file: BinaryIO) -> tuple[object, Callable[[_Storage], bytes]]:
    """Open the older format: five pickles, then the storages."""
    storages: dict[str, _Storage] = {}
    if _unpickled(file, storages) != _LEGACY_MAGIC:
        raise ValueError("it is no checkpoint of PyTorch")
    version, machine, content, keys = [_unpickled(file, storages) for _ in range(4)]
    if version != 1001 or not machine.get("little_endian", True):
        raise ValueError("it is of another version of the format, or its numbers are big-endian")
    places = {}
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        if not isinstance(key, str) or key not in storages or storages[key].length != count:
            raise ValueError("a storage is of no tensor, or of another length")
        places[key] = file.tell()
        file.seek(storages[key].num_bytes, os.SEEK_CUR)

    def bytes_of(storage: _Storage) -> bytes:
        file.seek(places[storage.key])
        return file.read(storage.num_bytes)

    return content, bytes_of


def _unpickled(file: BinaryIO, storages: dict[str, _Storage]) -> Any:  # noqa: ANN401 (a file may hold anything)
    """Build a pickle's content, and enter its storages by key."""
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}
    for instruction, value, place in pickletools.genops(file):
        name = instruction.name
        if (place or 0) > _LARGEST_TABLE:
            raise pickle.UnpicklingError(f"its pickles have more than {_LARGEST_TABLE} bytes")
        if name in _BUILDERS:
            from_mark, count, build = _BUILDERS[name]
            start = (marks.pop() if from_mark else len(stack)) - count
            stack[start:] = [build(stack[start:])]
            if name == "BINPERSID":
                storages[stack[-1].key] = stack[-1]
        elif name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if value is None else value] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(memo[value])
        elif name == "MARK":
            marks.append(len(stack))
        elif value is None or instruction.stack_before:
            raise pickle.UnpicklingError(f"it has the instruction {name}, which PyTorch does not write")
        elif instruction.stack_after:  # a plain value, or a GLOBAL, "module name"
            stack.append(value)
    return stack.pop()


def _storage(values: list) -> _Storage:
    """Check the reference to a tensor's numbers."""
    kind, dtype, key, _, count, *views = values[0][:6]
    are_names = isinstance(dtype, str) and isinstance(key, str) and dtype in _STORAGES
    if kind != "storage" or not are_names or not _are_counts((count,)) or any(views):
        raise pickle.UnpicklingError("it refers to numbers of an unknown kind")
    return _Storage(_STORAGES[dtype], key, count)


def _called(values: list) -> object:
    function, arguments = values
    if not isinstance(function, str) or not isinstance(arguments, tuple) or len(arguments) > _MOST_ARGUMENTS:
        raise pickle.UnpicklingError("it calls what is no function")
    if function not in _FUNCTIONS:
        raise pickle.UnpicklingError(f"it holds an object of {function.replace(' ', '.')}")
    return _FUNCTIONS[function](*arguments)


def _ordered(pairs: list | None = None) -> dict:
    """Return a `collections.OrderedDict`.

    Python 2 gives it pairs. They are moved, so that no list is read twice.
    """
    found = _named([value for name, content in pairs or () for value in (name, content)])
    if pairs:
        pairs.clear()
    return found


def _named(values: list) -> dict[str, Any]:
    """Return alternating names and values as a dictionary, without other keys."""
    return {name: value for name, value in zip(values[::2], values[1::2]) if isinstance(name, str)}


def _extended(values: list) -> list:
    values[0].extend(values[1:])
    return values[0]


def _updated(values: list) -> dict:
    values[0].update(_named(values[1:]))
    return values[0]


_FUNCTIONS: dict[str, Callable] = {
    "collections OrderedDict": _ordered,
    "torch._utils _rebuild_tensor": _Tensor.rebuilt,
    "torch._utils _rebuild_tensor_v2": _Tensor.rebuilt,
    "torch._utils _rebuild_parameter": lambda data, *_: data,
    "torch Size": lambda sizes=(): sizes,
}
# Instructions that replace the last values by one: whether these begin at the last mark, how many (before it), and how.
_BUILDERS: dict[str, tuple[bool, int, Callable[[list], Any]]] = {
    "NONE": (False, 0, lambda _: None),
    "NEWTRUE": (False, 0, lambda _: True),
    "NEWFALSE": (False, 0, lambda _: False),
    **dict.fromkeys(("EMPTY_LIST", "EMPTY_SET"), (False, 0, list)),
    **dict.fromkeys(("LIST", "FROZENSET"), (True, 0, list)),
    **{"EMPTY_TUPLE": (False, 0, tuple), "TUPLE1": (False, 1, tuple), "TUPLE2": (False, 2, tuple)},
    **{"TUPLE3": (False, 3, tuple), "TUPLE": (True, 0, tuple)},
    **{"EMPTY_DICT": (False, 0, _named), "DICT": (True, 0, _named)},
    **{"APPEND": (False, 2, _extended), "APPENDS": (True, 1, _extended), "ADDITEMS": (True, 1, _extended)},
    **{"SETITEM": (False, 3, _updated), "SETITEMS": (True, 1, _updated)},
    **{"STACK_GLOBAL": (False, 2, " ".join), "BINPERSID": (False, 1, _storage)},
    **dict.fromkeys(("REDUCE", "NEWOBJ"), (False, 2, _called)),
    **{"BUILD": (False, 2, lambda values: values[0]), "STOP": (False, 1, lambda values: values[0])},
}


def _read_safetensors(file: BinaryIO) -> CheckpointFile:
    """Read the header and the tensors, which lie side by side without gaps."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    (length,) = struct.unpack("<Q", file.read(8))
    if length > _LARGEST_TABLE:
        raise ValueError(f"its header has {length} bytes, more than {_LARGEST_TABLE}")
    header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    arrays, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        shape, (begin, end_of_one) = entry["shape"], entry["data_offsets"]
        if not _are_counts([begin, end_of_one]) or not _are_counts(shape) or not end == begin <= end_of_one <= size:
            raise ValueError(f"{name} lies outside of the file, or overlaps another tensor")
        storage, end = _Storage(_SAFETENSORS[entry["dtype"]], name, math.prod(shape)), end_of_one
        arrays[name] = storage.numbers(file.read(end - begin)).reshape(shape)
    if end != size - 8 - length:
        raise ValueError("it has bytes that belong to no tensor")
    return CheckpointFile(arrays, set())


def _single(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32 if np.issubdtype(value.dtype, np.floating) else value.dtype.newbyteorder("="))
