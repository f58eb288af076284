import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from common.data import Dataset, Examples
from common.errors import InvalidInput
from common.records import RunDirectory
from experiments.plans.study import StudyOptions
from experiments.recipes import resolve
from experiments.runs.unit import Unit
from experiments.settings import build
from experiments.settings.places import Places
from experiments.studies.fair_tables import gsp_table
from gsp_dml.zero_shot_halves import half_of

# Training classes of the first two folds, and the fewest and most images of a class.
BENCHMARKS = {
    "cub200": ((75, 75), (41, 60)),
    "cars196": ((73, 74), (48, 136)),
    "sop": ((8488, 8489), (2, 12)),
    "inshop": ((2997, 2998), (2, 20)),
}
NUM_BATCHES = 200


def test_samplers_are_built_by_name():
    labels = np.repeat(np.arange(20), 6)
    expected = {
        "rounds": "ClassBalancedBatches",
        "m_per_class": "ClassBalancedBatches",
        "spc": "MPerClassBatches",
        "spc_r": "RandomPairBatches",
        "coreset": "MemoryBatches",
        "distances": "MemoryBatches",
        "frechet": "MemoryBatches",
        "hard_negatives": "MemoryBatches",
    }
    for sampler, name in expected.items():
        overrides = {"sampler": sampler, "classes_per_batch": 4, "samples_per_class": 2}
        config = resolve("glyphs", "margin+distance", "gap", "thesis", "demo", overrides)
        batches = build.build_batches(config, labels, seed=0)
        assert type(batches).__name__ == name
        assert next(batches.from_step(3))[1].shape == (8,)
    with pytest.raises(InvalidInput, match="--sampler: received 'spc_2', .* rounds, m_per_class, spc, spc_r"):
        build.build_batches(resolve("glyphs", "c2", "gap", "thesis", "demo", {"sampler": "spc_2"}), labels, seed=0)


def test_heads_have_slices_and_draws_of_their_own_for_the_one_task():
    config = resolve("glyphs", "margin+distance+heads", "gap", "thesis", "demo", {"embedding_dim": 18})
    assert (config.feature_weight, config.decorrelation) == (1.0, 300.0)
    loss = build.build_loss(config, 4, seed=5)
    *heads, decorrelation = loss.parts
    assert [(head.first, head.size, head.loss.seed) for head in heads] == [
        (0, 6, 5),
        (6, 4, 10),
        (10, 4, 11),
        (14, 4, 12),
    ]
    assert loss.part_weights == (1.0,) * 5
    assert decorrelation.pairs == ((0, 1), (0, 2), (0, 3))
    with pytest.raises(InvalidInput, match="--method=ccp does not go with margin.heads"):
        resolve("glyphs", "margin+heads", "gap", "thesis", "demo", {}, "ccp")


def test_regularisers_are_added_beside_the_whole_loss():
    given = {"koleo_weight": 0.1, "coding_rate_weight": 0.2, "tcm_weight": 2.0, "tcm_negative_margin": 0.3}
    of_hier = {"proxies": 7, "neighbors": 5, "triplets": 3, "margin": 0.2, "temperature": 0.3, "curvature": 0.4}
    given |= {"hier_weight": 0.5, "hier_radius": 1.5, **{f"hier_{name}": value for name, value in of_hier.items()}}
    for name, method in (("c2+xbm", "plain"), ("c2", "ccp"), ("panchor", "plain")):
        configs = [resolve("glyphs", name, "gap", "thesis", "demo", values, method) for values in ({}, given)]
        plain, loss = (build.build_loss(config, 4) for config in configs)
        names = [type(part).__name__ for part in loss.parts]
        assert names == [
            type(plain).__name__,
            "KoLeoLoss",
            "CodingRateLoss",
            "ThresholdConsistentMarginLoss",
            "HIERLoss",
        ]
        assert loss.part_weights == (1.0, 0.1, 0.2, 2.0, 0.5)
        assert loss.parts[3].negative_margin == 0.3
        hier = loss.parts[4]
        assert [hier.num_proxies, hier.num_neighbors, hier.triplets_per_anchor] == [7, 5, 3]
        assert [hier.margin, hier.temperature, hier.curvature, hier.radius] == [0.2, 0.3, 0.4, 1.5]
        assert (hier.embedding_dim, hier.seed) == (configs[0].embedding_dim, configs[0].seed)
        assert any(variable is hier.proxies for variable in loss.proxy_variables)
        assert {part.normalization for part in loss.parts[1:]} == {configs[0].normalization}
    with pytest.raises(InvalidInput, match="--tcm_negative_margin would have no effect: --tcm_weight is 0"):
        resolve("glyphs", "c2", "gap", "thesis", "demo", {"tcm_negative_margin": 0.3})
    with pytest.raises(InvalidInput, match="--hier_proxies, --hier_margin would have no effect: --hier_weight is 0"):
        resolve("glyphs", "c2", "gap", "thesis", "demo", {"hier_margin": 0.3, "hier_proxies": 8})


def first_batches(config, num_classes: int, images: tuple[int, int]) -> np.ndarray:
    """Labels `[batches, batch]` of a training on a fold that has the shape of a benchmark's."""
    sizes = np.random.default_rng(num_classes).integers(images[0], images[1] + 1, num_classes)
    labels = np.repeat(np.arange(num_classes), sizes)
    batches = build.build_batches(config, labels, seed=num_classes)
    return np.stack([labels[indices] for _, indices in itertools.islice(batches.from_step(0), NUM_BATCHES)])


@functools.cache
def split_of_batches(halves: str):
    """`half_of` for many batches, a function that is traced once for batches of any size."""
    return tf.function(
        lambda batches: tf.map_fn(lambda batch: half_of(batch, halves), batches, tf.int32),
        input_signature=[tf.TensorSpec([None, None], tf.int64)],
        autograph=False,
    )


def classes_in_both_halves(labels: np.ndarray, halves: str) -> int:
    """How many batches have a class in both halves, or nothing in one, as `ZeroShotPredictionLoss` takes them."""
    sides = split_of_batches(halves)(tf.constant(labels)).numpy()
    parts = [[set(batch[half == side]) for side in (0, 1)] for batch, half in zip(labels, sides)]
    return sum(bool(first & second) or not (first and second) for first, second in parts)


@pytest.mark.parametrize("recipe", ["thesis", "published_code"])
@pytest.mark.parametrize("dataset", BENCHMARKS)
def test_the_halves_share_no_class_in_any_cell_of_table_5_1(dataset, recipe):
    cells = gsp_table(StudyOptions(dataset, "full", recipe)).cells(None)
    configs = {cell.config.name: cell.config for cell in cells if cell.config.zero_shot_weight}
    assert len(configs) == 7
    folds, images = BENCHMARKS[dataset]
    for config, num_classes in itertools.product(configs.values(), folds):
        labels = first_batches(config, num_classes, images)
        assert labels.shape == (NUM_BATCHES, config.batch_size)
        assert classes_in_both_halves(labels, config.zero_shot_halves) == 0, config.name


def test_the_count_finds_a_class_in_both_halves():
    config = resolve("cub200", "c2", "gap", "thesis", "full", {})  # without the loss, nothing is refused
    labels = first_batches(config, 75, (41, 60))
    assert classes_in_both_halves(labels, "even_odd") == NUM_BATCHES
    assert classes_in_both_halves(labels, "classes") == 0


REFUSED = [
    ("c2", {"zero_shot_halves": "even_odd"}, "8 of the 8 classes"),
    ("c2", {"zero_shot_halves": "even_odd", "sampler": "m_per_class", "classes_per_batch": 7}, "7 of the 7 classes"),
    ("c2", {"zero_shot_halves": "even_odd", "sampler": "spc_r"}, "any class may stand anywhere"),
    ("c2", {"classes_per_batch": 1}, "classes, with batches of 1 class"),
]


@pytest.mark.parametrize(("loss", "overrides", "message"), REFUSED)
def test_what_would_train_another_loss_is_refused_before_training(loss, overrides, message, tmp_path):
    images = np.zeros((48, 8, 8, 3), np.uint8)
    examples = Examples(np.repeat(np.arange(12), 4), inputs=images)
    dataset = Dataset("small", examples, examples, validation=examples)
    config = resolve("cub200", loss, "gsp", "thesis", "full", {**overrides, "crop": "none"})
    with pytest.raises(InvalidInput, match=f"zero_shot_halves: received .*{message}"):
        Unit(config, dataset, 0, 0, RunDirectory(tmp_path, {}), "hash", Places())
    without = resolve("cub200", loss, "gsp", "thesis", "full", {**overrides, "crop": "none", "zero_shot_weight": 0.0})
    Unit(without, dataset, 0, 0, RunDirectory(tmp_path, {}), "hash", Places())


@pytest.mark.parametrize(("recipe", "expected"), [("thesis", (2 / 128) ** 0.5), ("published_code", (2 / 8488) ** 0.5)])
def test_label_embeddings_of_sop_begin_as_large_as_the_recipe_says(recipe, expected):
    tf.keras.utils.set_random_seed(0)
    config = resolve("sop", "pnca", "gsp", recipe, "full", {})
    values = build.build_attribute_loss(config, 8488).label_embeddings.numpy()
    assert values.shape == (8488, 128)
    assert abs(values.std() / expected - 1) < 0.01
    assert abs(values.std() - {"thesis": 0.125, "published_code": 0.0153}[recipe]) < 0.001


def test_two_views_stand_one_below_the_other():
    labels, given = np.repeat(np.arange(12), 6), {"classes_per_batch": 4, "samples_per_class": 2}
    config = resolve("glyphs", "margin+distance+dance", "gap", "thesis", "demo", given)
    batches, plain = (
        build.build_batches(each, labels, 3)
        for each in (config, resolve("glyphs", "margin+distance", "gap", "thesis", "demo", given))
    )
    assert (batches.batch_size, batches.batches_per_epoch) == (2 * plain.batch_size, plain.batches_per_epoch)
    np.testing.assert_array_equal(batches.epoch(1), np.hstack([plain.epoch(1)] * 2))
