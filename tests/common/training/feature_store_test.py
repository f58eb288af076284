import logging

import numpy as np
import pytest

from common.errors import InvalidInput
from common.training import feature_store
from common.training.feature_store import FeatureStore

SHAPE = (2, 3, 1, 5)  # views, height, width, channels
VALUES = np.random.default_rng(0).normal(size=(10, *SHAPE)).astype(np.float32)


@pytest.fixture(autouse=True)
def four_items_a_file(monkeypatch):
    monkeypatch.setattr(feature_store, "_FILE_BYTES", 4 * 2 * np.prod(SHAPE))


def store_in(folder, **origin):
    return FeatureStore(folder, {"network": "a", **origin}, len(VALUES), SHAPE)


def stream(values, size=7):
    flat = values.reshape(-1, *SHAPE[1:])
    yield from (flat[start : start + size] for start in range(0, len(flat), size))


def filled(folder, **origin):
    store = store_in(folder, **origin)
    with store.filling():
        missing = store.missing()
        items = [item for number in missing for item in store.items_of(number)]
        store.fill(missing, stream(VALUES[items]))
    store.open()
    return store, missing


def everything(store):
    items, views = np.divmod(np.arange(20), 2)
    return store.read(items, views).reshape(VALUES.shape)


def files_of(store):
    return sorted(store.path.glob("activations-*.npy"))


def test_what_is_read_is_what_was_written_in_float16(tmp_path):
    store, missing = filled(tmp_path)
    assert missing == [0, 1, 2]
    assert store.num_files == 3
    np.testing.assert_array_equal(everything(store), VALUES.astype(np.float16))
    np.testing.assert_array_equal(store.read([9, 0, 9], [1, 0, 1]), VALUES.astype(np.float16)[[9, 0, 9], [1, 0, 1]])


def test_zeros_are_left_out_and_files_of_before_are_read(tmp_path, monkeypatch):
    values = np.where(np.random.default_rng(1).uniform(size=VALUES.shape) < 0.1, VALUES, 0).astype(np.float16)
    values[3, 1] = 0
    values[4, 0, 0] = -0.0
    monkeypatch.setattr(f"{__name__}.VALUES", values)
    sparse, _ = filled(tmp_path / "sparse")
    monkeypatch.setattr(feature_store, "_sparse", lambda values: None)
    dense, _ = filled(tmp_path / "dense")
    assert [np.load(path).ndim for path in files_of(sparse)] == [1, 1, 1]
    assert [np.load(path).ndim for path in files_of(dense)] == [5, 5, 5]
    for store in (sparse, dense):
        assert everything(store).tobytes() == values.tobytes()
    size = sum(np.load(path).nbytes for path in files_of(sparse))
    assert size == 20 * 4 + 4 * np.count_nonzero(values.view(np.uint16))


def test_an_interruption_costs_no_more_than_the_file_that_was_not_complete(tmp_path):
    def stopping():
        yield from list(stream(VALUES, size=4))[:3]  # 12 of 20 views: one file of eight, and a half
        raise KeyboardInterrupt

    store = store_in(tmp_path)
    with pytest.raises(KeyboardInterrupt), store.filling():
        store.fill(store.missing(), stopping())
    (store.path / ".activations-00001-abc.npy.0123.tmp").write_bytes(b"half of a file")
    again, missing = filled(tmp_path)
    assert missing == [1, 2]
    assert list(again.path.glob(".*.tmp")) == []
    np.testing.assert_array_equal(everything(again), VALUES.astype(np.float16))


@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "other_name"])
def test_a_damaged_file_is_said_and_made_again(tmp_path, caplog, damage):
    store, _ = filled(tmp_path)
    path = files_of(store)[1]
    contents = bytearray(path.read_bytes())
    contents[-1] ^= 1
    if damage == "other_name":
        path.rename(path.with_name(path.name.replace("-00001-", "-00000-")))
    else:
        path.write_bytes({"bit": bytes(contents), "cut": contents[:-4], "empty": b""}[damage])
    with caplog.at_level(logging.WARNING):
        again, missing = filled(tmp_path)
    assert missing == [1]
    assert "is damaged, or belongs elsewhere" in caplog.text
    np.testing.assert_array_equal(everything(again), VALUES.astype(np.float16))


def test_a_file_of_another_store_is_not_taken_for_ones_own(tmp_path):
    store, _ = filled(tmp_path)
    other = store_in(tmp_path, network="b")
    assert other.path != store.path
    other.path.mkdir()
    for path in files_of(store):
        (other.path / path.name).write_bytes(path.read_bytes())
    assert other.missing() == [0, 1, 2]
    assert files_of(other) == []


def test_what_float16_does_not_hold_is_refused(tmp_path):
    store = store_in(tmp_path)
    for number in (7e4, np.inf, np.nan):
        values = VALUES.copy()
        values[0, 0, 0, 0, 0] = number
        with pytest.raises(InvalidInput, match="float16.*65,504.*--trained_from.*--nocached_features"), store.filling():
            store.fill(store.missing(), stream(values))
    assert store.missing() == [0, 1, 2]


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidInput, match="--cache_dir.*can be written"), store_in(tmp_path / "file").filling():
        pass
