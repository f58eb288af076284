import collections
import io
import json
import os
import pickle
import resource
import struct
import time
import zipfile

import numpy as np
import pytest

from common.backbones import is_checkpoint, mobilenet_v2, network_of_file, read_arrays, read_checkpoint
from common.backbones.pretrained_weights import named_parameters
from common.errors import InvalidInput

NUMBERS = np.arange(24, dtype=np.float32)


class Global:
    """A name of a module, as a pickle refers to it."""

    def __init__(self, module, name):
        self.module, self.name = module, name


class Stored:
    """What PyTorch replaces by a persistent id."""

    def __init__(self, kind, key, count):
        self.pid = ("storage", Global("torch", kind), key, "cpu", count)


class Tensor:
    def __init__(self, storage, offset=0, shape=(24,), strides=(1,), function="_rebuild_tensor_v2"):
        self.arguments = function, (storage, offset, shape, strides, False, {})


class Pickler(pickle._Pickler):
    """Writes tensors and names as PyTorch does, without PyTorch."""

    def persistent_id(self, value):
        return value.pid if isinstance(value, Stored) else None

    def save(self, value, *args, **kwargs):
        if isinstance(value, Global):
            self.write(pickle.GLOBAL + f"{value.module}\n{value.name}\n".encode())
        elif isinstance(value, Tensor):
            function, arguments = value.arguments
            self.save(Global("torch._utils", function))
            self.save(arguments)
            self.write(pickle.REDUCE)
        else:
            super().save(value, *args, **kwargs)


def pickled(value, protocol=2):
    buffer = io.BytesIO()
    Pickler(buffer, protocol=protocol).dump(value)
    return buffer.getvalue()


def archive(path, content, storages, byteorder=b"little", compression=zipfile.ZIP_STORED, protocol=2):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("network/data.pkl", content if isinstance(content, bytes) else pickled(content, protocol))
        file.writestr("network/byteorder", byteorder)
        for key, data in storages.items():
            file.writestr(f"network/data/{key}", data)
    return str(path)


def legacy(path, content, storages, item=4):
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, content, [*storages]]
    body = b"".join(struct.pack("<q", len(data) // item) + data for data in storages.values())
    path.write_bytes(b"".join(part if isinstance(part, bytes) else pickled(part) for part in head) + body)
    return str(path)


@pytest.mark.parametrize("write", [archive, legacy])
def test_views_of_a_storage(tmp_path, write):
    storage = Stored("FloatStorage", "0", 24)
    content = {
        "whole": Tensor(storage),
        "turned": Tensor(storage, 2, (3, 4), (1, 5)),
        "scalar": Tensor(storage, 7, (), (), "_rebuild_tensor"),
        "empty": Tensor(storage, 0, (0, 3), (3, 1)),
        "epoch": 3,
    }
    arrays, others = read_checkpoint(write(tmp_path / "file.pth", content, {"0": NUMBERS.tobytes()}))
    np.testing.assert_array_equal(arrays["whole"], NUMBERS)
    np.testing.assert_array_equal(arrays["turned"], [[2 + r + 5 * c for c in range(4)] for r in range(3)])
    assert (arrays["scalar"], arrays["empty"].shape, others) == (7, (0, 3), {"epoch"})
    script = {"epoch": 3, "optimizer": {"state": [content["whole"]]}, "state_dict": {"module.a": content["whole"]}}
    arrays, others = read_checkpoint(write(tmp_path / "file.pth", script, {"0": NUMBERS.tobytes()}))
    assert (set(arrays), others) == ({"a"}, {"epoch", "optimizer"})


@pytest.mark.parametrize("names", [["module.a", "module.b"], ["module.a", "b"], ["modules.a", "module.b"]])
def test_a_prefix_is_removed_if_all_names_have_it(tmp_path, names):
    tensor = Tensor(Stored("FloatStorage", "0", 24))
    path = archive(tmp_path / "file.pth", dict.fromkeys(names, tensor), {"0": NUMBERS.tobytes()})
    expected = {"a", "b"} if names == ["module.a", "module.b"] else set(names)
    assert set(read_checkpoint(path).arrays) == expected


class Ordered:
    """An ordered dictionary as Python 2 pickled it: by pairs, and with attributes that follow."""

    def __init__(self, content):
        self.pairs = [list(pair) for pair in content.items()]

    def __reduce__(self):
        return collections.OrderedDict, (self.pairs,), {"_metadata": {"version": 1}}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_training_scripts_keep_beside_the_network(tmp_path, protocol):
    network, momentum = Stored("FloatStorage", "0", 24), Stored("HalfStorage", "1", 3)
    state = Ordered({"a": Tensor(network), "same": Tensor(network)})
    others = {"loss": [0.5, None, True, -(2**40)], "sizes": (1, (2, 3), {4: "text"}), 6: Tensor(momentum)}
    others |= {"bytes": [b"bytes", {5}, frozenset({6})]} if protocol > 3 else {}
    storages = {"1": bytes(6), "0": NUMBERS.tobytes()}
    path = archive(tmp_path / "file.pth", {**others, "model": state}, storages, protocol=protocol)
    arrays, names = read_checkpoint(path)
    np.testing.assert_array_equal([arrays["a"], arrays["same"]], [NUMBERS, NUMBERS])
    assert names == {*others} - {6}


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        ("HalfStorage", np.float16([1.5, -2]), np.float32),
        ("DoubleStorage", np.float64([1.5, -2]), np.float32),
        ("BFloat16Storage", np.uint16([0x3FC0, 0xC000]), np.float32),
        ("LongStorage", np.int64([3, -4]), np.int64),
        ("BoolStorage", np.array([True, False]), np.bool_),
    ],
)
def test_types_of_numbers(tmp_path, kind, data, expected):
    tensor = Tensor(Stored(kind, "0", 2), shape=(2,))
    array = read_checkpoint(archive(tmp_path / "file.pt", {"x": tensor}, {"0": data.tobytes()})).arrays["x"]
    assert array.dtype == expected
    np.testing.assert_array_equal(array, [1.5, -2] if expected == np.float32 else data)


def safetensors(path, header, body):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return str(path)


def test_safetensors(tmp_path):
    whole = {"dtype": "F32", "shape": [4, 6], "data_offsets": [0, 96]}
    header = {
        "__metadata__": {"format": "pt"},
        "a": whole,
        "b": {"dtype": "BF16", "shape": [2], "data_offsets": [96, 100]},
    }
    body = NUMBERS.tobytes() + np.uint16([0x3FC0, 0xC000]).tobytes()
    arrays = read_arrays(safetensors(tmp_path / "file.safetensors", header, body))
    np.testing.assert_array_equal(arrays["a"], NUMBERS.reshape(4, 6))
    np.testing.assert_array_equal(arrays["b"], [1.5, -2])
    for wrong in ({"data_offsets": [0, 104]}, {"data_offsets": [8, 4]}, {"shape": [-4, -6]}, {"dtype": "F3"}):
        with pytest.raises(InvalidInput, match="Reading it failed"):
            read_checkpoint(safetensors(tmp_path / "file.safetensors", {"a": {**whole, **wrong}}, body))
    for others, data in (
        ({"c": whole}, body[:96]),
        ({}, body),
        ({"c": {**whole, "data_offsets": [100, 196]}}, body * 2),
    ):
        with pytest.raises(InvalidInput, match="Reading it failed"):
            read_checkpoint(safetensors(tmp_path / "file.safetensors", {"a": whole, **others}, data))


def test_a_huge_header_is_refused_unread(tmp_path):
    path = safetensors(tmp_path / "file.safetensors", {"__metadata__": {"a": "b" * 2_000_000}}, b"")
    with pytest.raises(InvalidInput, match="its header has 2000027 bytes, more than 1000000"):
        read_checkpoint(path)


def test_damaged_files_and_what_pytorch_never_writes(tmp_path):
    path = tmp_path / "file.pth"
    for content in (b"", b"weights", b"PK\x03\x04", pickle.dumps({"x": 1}), pickle.dumps(0x1950A86A20F9469CFC6C, 2)):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="file.pth.*Reading it failed"):
            read_checkpoint(path)
    for content in ({"epoch": 3}, [1.0], {}):
        with pytest.raises(InvalidInput, match=r"expected a dictionary of tensors"):
            read_checkpoint(archive(path, content, {}))
    tensor, data = {"x": Tensor(Stored("FloatStorage", "0", 24))}, {"0": NUMBERS.tobytes()}
    with pytest.raises(InvalidInput, match="big-endian"):
        read_checkpoint(archive(path, tensor, data, byteorder=b"big"))
    with pytest.raises(InvalidInput, match="byteorder has 1000000 bytes"):
        read_checkpoint(archive(path, tensor, data, byteorder=bytes(1_000_000)))
    with pytest.raises(InvalidInput, match="compressed"):
        read_checkpoint(archive(path, tensor, data, compression=zipfile.ZIP_DEFLATED))


def shared(kind, depth=60):
    """Containers within containers, each twice: 2^60 ways through them."""
    content = kind()
    for _ in range(depth):
        content = {"a": content, "b": content} if kind is dict else kind([content, content])
    return content


DEEP_TUPLE = pickled(shared(tuple))[2:-1]  # as a part of a pickle
STORAGE = pickled(Stored("FloatStorage", "0", 24))[2:-1]


@pytest.mark.parametrize(
    "content",
    [
        {"deep": shared(dict)},
        {"deep": shared(list)},
        b"\x80\x02}" + DEEP_TUPLE + b"Ns.",  # the name of a value
        b"\x80\x02" + DEEP_TUPLE + b"Q.",  # a reference
        b"\x80\x02" + DEEP_TUPLE + b")R.",  # a function
        b"\x80\x02(U\x07storage" + DEEP_TUPLE + b"U\x010NK\x01tQ.",  # a kind of numbers
        b"\x80\x02" + b"N" * 600_000 + b"}" + b"U\x01aNs" * 60_000 + b".",  # a full stack
        b"\x80\x02ctorch._utils\n_rebuild_tensor\n(" + STORAGE + b"K\x00" + DEEP_TUPLE * 2 + b"tR.",  # a shape
        b"\x80\x02}r\xff\xff\xff\x0f.",  # a memo of four gigabytes
        b"\x80\x02]q\x00("
        + b"X\x01\0\0\0aN\x86" * 8_000
        + b"e"
        + b"ccollections\nOrderedDict\nh\0\x85R" * 8_000
        + b".",
        b"\x80\x02" + b"]" * 1_000_000 + b".",
        {f"t{number}": Tensor(Stored("FloatStorage", "0", 24), 0, (20, 24), (0, 1)) for number in range(1000)},
        {"one": Tensor(Stored("FloatStorage", "0", 24), 0, (2**40, 2**40), (0, 0))},
    ],
)
@pytest.mark.parametrize("write", [archive, legacy])
def test_a_small_file_takes_little_time_and_memory(tmp_path, write, content):
    path = write(tmp_path / "file.pth", content, {"0": NUMBERS.tobytes()})
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InvalidInput):
        read_checkpoint(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB
    assert time.process_time() - start < 10  # seconds


@pytest.mark.parametrize(
    "tensor",
    [
        Tensor(Stored("FloatStorage", "0", 24), 1),
        Tensor(Stored("FloatStorage", "0", 24), -1),
        Tensor(Stored("FloatStorage", "0", 24), 0, (2, 3), (1, 24)),
        Tensor(Stored("FloatStorage", "0", 24), 23, (3,), (-1,)),
        Tensor(Stored("FloatStorage", "0", 24), 0, (10**6, 10**6), (0, 0)),
        Tensor(Stored("FloatStorage", "0", 24), 0, (24,), (1, 1)),
        Tensor(Stored("FloatStorage", "0", 25), 0, (24,), (1,)),
        Tensor(Stored("FloatStorage", "missing", 24)),
        Tensor("no storage"),
    ],
)
@pytest.mark.parametrize("write", [archive, legacy])
def test_tensors_outside_of_their_storage(tmp_path, write, tensor):
    with pytest.raises(InvalidInput, match="Reading it failed"):
        read_checkpoint(write(tmp_path / "file.pth", {"x": tensor}, {"0": NUMBERS.tobytes()}))


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("created",)


@pytest.mark.parametrize("write", [archive, legacy])
def test_code_in_a_file_is_not_run(tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"it holds an object of (posix|nt)\.mkdir.*reading these runs their code"):
        read_checkpoint(write(tmp_path / "file.pth", {"x": Hostile()}, {}))
    assert not (tmp_path / "created").exists()


def test_a_network_starts_from_a_checkpoint(tmp_path):
    model = mobilenet_v2()
    content, storages = {}, {}
    for key, (name, (variable, axes)) in enumerate(named_parameters(model).items()):
        values = np.transpose(np.asarray(variable) + 1, np.argsort(axes))
        strides = tuple(np.cumprod([1, *values.shape[:0:-1]])[::-1].tolist()) if values.ndim else ()
        content[name] = Tensor(Stored("FloatStorage", str(key), values.size), 0, values.shape, strides)
        storages[str(key)] = values.tobytes()
    path = archive(tmp_path / "network.pth", content, storages)
    assert is_checkpoint(path)
    assert network_of_file(path) == "mobilenet_v2"
    for weight, other in zip(model.get_weights(), mobilenet_v2(weights=path).get_weights()):
        np.testing.assert_array_equal(weight + 1, other)
