import dataclasses
import hashlib
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from common.data.batches import ClassBalancedBatches, TwoViews
from common.data.dataset import Examples
from common.data.image_formats import Reading
from common.data.images import CenterCrop, Identity, RandomShift, ThesisCrop
from common.data.input_pipeline import evaluation_batches, example_seeds, invalid_input_behind, training_batches
from common.errors import InvalidInput

LABELS = np.repeat(np.arange(8), 5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images with blanks")
    generator = np.random.default_rng(0)
    paths = []
    for number in range(len(LABELS)):
        height, width = generator.integers(30, 60, 2)
        rough = Image.fromarray(generator.integers(0, 256, (5, 5, 3), dtype=np.uint8))
        paths.append(str(folder / f"{number}.jpg"))
        rough.resize((int(width), int(height))).save(paths[-1], quality=90, subsampling=0)
    return Examples(labels=LABELS, paths=np.array(paths))


@pytest.fixture(scope="module")
def in_memory():
    images = np.random.default_rng(0).integers(0, 256, (len(LABELS), 12, 10, 1), dtype=np.uint8)
    return Examples(labels=LABELS, inputs=images)


def index_batches(seed=0):
    return ClassBalancedBatches(LABELS, classes_per_batch=3, samples_per_class=2, seed=seed)


def hashes(dataset, count):
    return [
        hashlib.sha256(inputs.numpy().tobytes() + labels.numpy().tobytes()).hexdigest()
        for inputs, labels in dataset.take(count)
    ]


def test_files_have_the_same_bits_from_any_step(files):
    """`batch_digest_test` has the bits themselves, for one and for four threads."""
    batches, augmentation = index_batches(), ThesisCrop(16)
    count = batches.batches_per_epoch + 3
    expected = hashes(training_batches(files, batches, augmentation, seed=5, num_threads=1), count)
    assert len(set(expected)) == count
    for start in (1, batches.batches_per_epoch):
        resumed = training_batches(files, batches, augmentation, seed=5, start_step=start)
        assert hashes(resumed, count - start) == expected[start:]
    assert hashes(training_batches(files, batches, augmentation, seed=5, num_threads=4), count) == expected


@pytest.mark.parametrize(("augmentation", "start"), [(RandomShift(2, flip=True), 0), (ThesisCrop(8), 16)])
def test_batches_that_are_transformed_together_have_the_bits_of_each_alone(in_memory, augmentation, start):
    batches, count = index_batches(), 20 if augmentation.works_on_batches else 3  # more than are transformed together
    single = tf.function(augmentation)
    found = training_batches(in_memory, batches, augmentation, seed=5, start_step=start, num_threads=4)
    assert [(each.shape[0], each.dtype) for each in found.element_spec] == [(6, tf.uint8), (6, tf.int64)]
    for step, (inputs, labels) in enumerate(found.take(count), start):
        epoch, indices = next(iter(batches.from_step(step)))
        seeds = example_seeds(5, epoch, step % batches.batches_per_epoch, len(indices))
        expected = [single(*map(tf.constant, each)).numpy() for each in zip(in_memory.inputs[indices], seeds)]
        np.testing.assert_array_equal(inputs, expected)
        np.testing.assert_array_equal(labels, LABELS[indices])


class SlowWhereDark(Identity):
    """The darker an image, the longer it takes: without a rule of order the bright ones of a batch would overtake."""

    works_on_batches = False

    def __call__(self, image, seed=(0, 0)):
        def wait(brightness):
            time.sleep(0.05 * (int(brightness) < len(LABELS) / 2))
            return brightness

        with tf.control_dependencies([tf.py_function(wait, [image[0, 0, 0]], image.dtype)]):
            return tf.identity(image)


def test_a_slow_image_does_not_lose_its_place():
    images = np.arange(len(LABELS), dtype=np.uint8)[:, np.newaxis, np.newaxis, np.newaxis]
    numbered, batches = Examples(labels=LABELS, inputs=images), index_batches()
    drawn = [list(indices) for _, (_, indices) in zip(range(4), batches.from_step(0))]
    assert any(min(indices) < len(LABELS) / 2 <= max(indices) for indices in drawn)
    dataset = training_batches(numbered, batches, SlowWhereDark(), seed=0, num_threads=4).take(4)
    assert [list(inputs.numpy()[:, 0, 0, 0]) for inputs, _ in dataset] == drawn
    in_order = evaluation_batches(numbered, SlowWhereDark(), 8, num_threads=4)
    assert list(np.concatenate([inputs.numpy()[:, 0, 0, 0] for inputs in in_order])) == list(range(len(LABELS)))


@pytest.mark.parametrize("num_views", [1, 2])
def test_labels_with_places_say_which_examples_a_batch_holds(in_memory, num_views):
    batches = ClassBalancedBatches(in_memory.labels, 2, 2, seed=1)
    batches = TwoViews(batches) if num_views == 2 else batches
    images, rows = next(iter(training_batches(in_memory, batches, Identity(), 0, start_step=3, with_places=True)))
    labels, places = rows.numpy().T
    assert rows.dtype == tf.int64
    assert rows.shape == (batches.batch_size, 2)
    np.testing.assert_array_equal(images, in_memory.arrays[places])
    np.testing.assert_array_equal(labels, in_memory.labels[places])
    plain_images, plain_labels = next(iter(training_batches(in_memory, batches, Identity(), 0, start_step=3)))
    np.testing.assert_array_equal(plain_images, images)
    np.testing.assert_array_equal(plain_labels, labels)


def test_batches_of_several_labels(in_memory):
    sets = np.random.default_rng(0).random((len(in_memory), 5)) < 0.4
    several = dataclasses.replace(in_memory, label_sets=sets).subset(np.arange(len(in_memory))[::-1])
    batches = ClassBalancedBatches(several.labels, 2, 2, seed=1)
    images, labels = next(iter(training_batches(several, batches, Identity(), 0)))
    assert (labels.dtype, labels.shape) == (tf.bool, (4, 5))
    places = batches.epoch(0)[0]
    np.testing.assert_array_equal(images, in_memory.arrays[::-1][places])
    np.testing.assert_array_equal(labels, sets[::-1][places])
    with pytest.raises(InvalidInput, match="with_places: .*expected one label each"):
        training_batches(several, batches, Identity(), 0, with_places=True)
    with pytest.raises(InvalidInput, match="examples.label_sets: .*expected bools"):
        dataclasses.replace(in_memory, label_sets=sets.astype(int))


def test_tokens_pass_untouched():
    tokens = np.random.default_rng(0).integers(0, 2**20, (len(LABELS), 7), dtype=np.int32)
    examples = Examples(labels=LABELS, inputs=tokens)
    batches = index_batches()
    inputs, _ = next(iter(training_batches(examples, batches, Identity(), seed=0)))
    assert inputs.dtype == tf.int32
    np.testing.assert_array_equal(inputs, tokens[batches.epoch(0)[0]])
    evaluated = np.concatenate(list(evaluation_batches(examples, Identity(), 16)))
    np.testing.assert_array_equal(evaluated, tokens)


def test_evaluation_is_in_order_with_a_smaller_last_batch(files, in_memory):
    inputs = list(evaluation_batches(in_memory, Identity(), 16))
    assert [len(batch) for batch in inputs] == [16, 16, 8]
    np.testing.assert_array_equal(np.concatenate(inputs), in_memory.inputs)

    dataset = evaluation_batches(files, CenterCrop(16), 16, num_threads=4)
    assert len(dataset) == 3
    images = np.concatenate([batch.numpy() for batch in dataset])
    assert images.shape == (40, 16, 16, 3)
    for index in (0, 17, 39):
        contents = tf.io.read_file(files.paths[index])
        expected = CenterCrop(16)(tf.io.decode_jpeg(contents, 3, dct_method="INTEGER_ACCURATE")).numpy()
        np.testing.assert_array_equal(images[index], expected)
    with pytest.raises(InvalidInput, match="fixed output size"):
        evaluation_batches(files, Identity(), 4)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_bad_file_in_the_middle_of_an_epoch_is_named(files, tmp_path, damage):
    paths, bad = np.array(files.paths, object), tmp_path / "bad picture.jpg"
    if damage == "truncated":
        bad.write_bytes(Path(files.paths[0]).read_bytes()[:-300])
    paths[30] = str(bad)
    examples = Examples(labels=LABELS, paths=paths.astype(str))
    with pytest.raises(tf.errors.OpError, match=bad.name) as caught:
        for _ in training_batches(examples, index_batches(), ThesisCrop(16), seed=0).take(50):
            pass
    explained = invalid_input_behind(caught.value)
    assert isinstance(explained, InvalidInput)
    assert str(bad) in str(explained)
    assert "\n" not in str(explained)
    assert invalid_input_behind(tf.errors.InvalidArgumentError(None, None, "shapes differ")) is None
    assert invalid_input_behind(FileNotFoundError("x; No such file or directory")) is None


def test_seeds_are_a_function_of_seed_epoch_and_place():
    base = example_seeds(0, 1, 2, 64)
    assert base.shape == (64, 2)
    assert len(np.unique(base, axis=0)) == 64
    np.testing.assert_array_equal(base, example_seeds(0, 1, 2, 64))
    assert example_seeds(0, 1, 2, 2).tolist() == [[1192088880, 1893443930], [629676634, 621002049]]  # on every stack
    for other in ((1, 1, 2), (0, 2, 2), (0, 1, 3)):
        assert not np.isin(example_seeds(*other, 64), base).any()


def test_reading_is_traced_once_for_a_transformation_that_cannot_change(files, monkeypatch):
    traced, few = [], files.subset(np.arange(4))

    def read(path, transform, seed, reading):
        traced.append(transform)
        return tf.cast(tf.fill([19, 19, 3], tf.strings.to_hash_bucket_fast(path, 256)), tf.uint8)

    class Changing(CenterCrop):  # a class of one's own, whose objects may be assigned to
        __dataclass_params__ = type("Params", (), {"frozen": False})

    monkeypatch.setattr("common.data.input_pipeline._of_path", read)
    tf.keras.backend.clear_session()
    made = []
    for transform, examples, num_traces in (
        (CenterCrop(19), few, 1),
        (CenterCrop(19), few, 1),
        (Changing(19), few, 2),
        (Changing(19), few, 3),
        (CenterCrop(19), dataclasses.replace(few, reading=Reading.STORED), 4),
    ):
        made.append(np.concatenate(list(evaluation_batches(examples, transform, 3))))
        assert len(traced) == num_traces
    tf.keras.backend.clear_session()  # lets go of what the trace calls
    evaluation_batches(few, CenterCrop(19), 3)
    assert traced[-1] == CenterCrop(19)
    assert len(traced) == 5
    for inputs in made[1:]:
        np.testing.assert_array_equal(inputs, made[0])
