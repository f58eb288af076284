import dataclasses
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import gsp_dml.method
from common.data import CenterCrop, Dataset, Examples, load_cub200
from common.data.image_formats import Reading
from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval
from experiments.recipes import resolve
from experiments.runs.evaluation import untrained_embeddings
from experiments.runs.pooling_weights import has_weights, pooling_weights_of, target_shares
from experiments.settings import build

keras = tf.keras
pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


@pytest.fixture(scope="module")
def collages():
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 4)
    images = generator.integers(0, 256, (16, 48, 48, 1)).astype(np.uint8)
    examples = Examples(labels, inputs=images, positions=generator.integers(4, size=16))
    return Dataset(
        name="collages",
        train=examples,
        test=examples,
        validation=examples,
    )


def built(pooling, collages, **overrides):
    config = resolve("glyph_collage", "pnca", pooling, "thesis", "smoke", overrides)
    model = build.build_model(config, collages, num_classes=4)
    model.build_from_batch(tf.constant(collages.train.inputs), tf.constant(collages.train.labels))
    return config, model


@pytest.mark.parametrize(("loss", "method"), [("pnca", "plain"), ("c2", "ccp"), ("margin+distance+shared", "plain")])
def test_a_network_begins_alike_whatever_its_loss_draws(loss, method, collages):
    """Proxies and boundaries are drawn after the network: a run of the same seed has the same first weights."""
    found = []
    for name, kind in (("c2", "plain"), (loss, method)):
        config = resolve("glyph_collage", name, "gap", "thesis", "smoke", {"samples_per_class": 4}, kind)
        keras.utils.set_random_seed(3)
        model = build.build_model(config, collages, num_classes=4, num_examples=16)
        found.append([np.array(weight) for weight in model.backbone.weights])
    assert len(found[0]) > 0
    for first, other in zip(*found, strict=True):
        np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("pooling", build.MAP_POOLINGS)
def test_every_pooling_builds_and_its_weights_sum_to_one(pooling, collages):
    config, model = built(pooling, collages)
    batches = tf.data.Dataset.from_tensor_slices(collages.test.inputs).batch(10)
    embeddings = model.embed(batches)
    assert embeddings.shape == (16, 8192 if pooling.endswith("_64x128") else 128)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-4)
    shares = target_shares(model, collages.test, batches)
    assert (shares is None) == (not has_weights(model.head.pooling))
    if shares is not None:
        pooled = pooling_weights_of(model, batches)
        np.testing.assert_allclose(pooled.weights.sum(1), 1, rtol=1e-4)
        assert pooled.map_shape == (6, 6)
        assert all(0 < share < 1 for share in shares.values())
    assert len(config.methods_of(gsp_dml.method.Method)) == pooling.endswith("gsp")


def test_uniform_weights_fall_on_a_box_as_on_its_area(collages):
    _, model = built("gap", collages)
    boxes = np.tile([8, 8, 24, 40], (len(collages.test), 1))
    examples = dataclasses.replace(collages.test, positions=None, boxes=boxes)
    shares = target_shares(model, examples, tf.data.Dataset.from_tensor_slices(examples.inputs).batch(10))
    assert shares["area_of_target"] == pytest.approx(16 * 32 / 48**2)
    assert shares["weight_on_target"] == pytest.approx(shares["area_of_target"], rel=1e-5)
    assert shares["weight_auc"] == pytest.approx(0.5)
    assert 0 < shares["norm_auc"] < 1


@pytest.mark.parametrize("loss", ["c1", "ms"])
@pytest.mark.parametrize("reduction", [None, "mean_of_active"])
def test_the_reduction_over_partners_reaches_the_loss(loss, reduction):
    config = resolve("glyphs", loss, "gap", "thesis", "smoke", {"pair_reduction": reduction} if reduction else {})
    assert build.build_loss(config, 4).reduction == (reduction or "sum")


def test_poolings_without_weights_say_so(collages):
    _, model = built("gmp", collages)
    with pytest.raises(InvalidInput, match="GlobalMaxPooling"):
        pooling_weights_of(model, tf.data.Dataset.from_tensors(collages.test.inputs))


EMBEDDINGS, LABELS = np.random.default_rng(0).normal(size=(16, 128)).astype(np.float32), np.repeat(np.arange(4), 4)


@pytest.mark.parametrize(("recipe", "has_filter"), [("thesis", True), ("published_code", False)])
def test_evaluation_of_files_has_the_filter_and_the_copies_of_its_recipe(recipe, has_filter, tmp_path):
    Image.fromarray(np.zeros((300, 400, 3), np.uint8)).save(tmp_path / "image.png")
    examples = Examples(np.zeros(1, int), paths=np.array([str(tmp_path / "image.png")]))
    dataset = Dataset("files", examples, examples)
    config = resolve("cub200", "c2", "gap", recipe, "full", {})
    assert build.build_inputs(config, dataset).preprocessing == CenterCrop(227, antialias=has_filter)
    prepared = build.prepare_dataset(dataset, config, str(tmp_path / "cache"))
    assert [part.paths[0] == examples.paths[0] for part in (prepared.train, prepared.test)] == [not has_filter] * 2


def test_compressed_copies_are_another_run_and_read_by_it_alone(tmp_path):
    Image.fromarray(np.zeros((100, 130, 3), np.uint8)).save(tmp_path / "image.png")
    examples = Examples(np.zeros(1, int), paths=np.array([str(tmp_path / "image.png")]))
    dataset, cache = Dataset("files", examples, examples), str(tmp_path / "cache")
    method = ("cub200", "c2", "gap", "thesis", "full")
    plain, exact, small = (resolve(*method, given) for given in ({}, {"copies": "exact"}, {"copies": "compressed"}))
    assert plain.hash("data") == exact.hash("data") != small.hash("data")
    assert small.stored()["copies"] == "compressed"
    copies = [build.prepare_dataset(dataset, each, cache).test for each in (plain, small)]
    sizes = [pathlib.Path(each.paths[0]).stat().st_size for each in copies]
    assert sizes[1] < sizes[0]
    for given in ({"recipe": "published_code"}, {"evaluation_antialias": False}):
        recipe = given.pop("recipe", "thesis")
        with pytest.raises(InvalidInput, match="--copies would have no effect"):
            resolve("cub200", "c2", "gap", recipe, "full", {"copies": "compressed", **given})
    with pytest.raises(InvalidInput, match="--copies would have no effect"):
        resolve("glyphs", "c2", "gap", "thesis", "full", {"copies": "compressed"})


@pytest.mark.release  # half a minute of EfficientNet-lite0; that such copies are read is asked above
def test_compressed_copies_keep_the_untrained_figure_within_the_bound_of_the_documents(shared_data, tmp_path):
    """On all 294 photographs: the 146 of the test half alone are too few to tell a tenth."""
    loaded = load_cub200(shared_data("cub200_2010_10classes"))
    labels = np.concatenate([loaded.train.labels, loaded.test.labels])
    paths = np.array([*loaded.train.file_names, *loaded.test.file_names])
    dataset = dataclasses.replace(loaded, test=Examples(labels, paths=paths, reading=Reading.STORED))
    found = {}
    for copies in ("exact", "compressed"):
        given = {"backbone": "efficientnet_lite0", "weights": "imagenet", "copies": copies}
        config = resolve("cub200", "c2", "gap", "thesis", "full", given)
        embeddings = untrained_embeddings(config, dataset, str(tmp_path))["queries"]
        found[copies] = 100 * evaluate_retrieval(embeddings, labels).map_at_r
    assert found["exact"] == pytest.approx(34.43, abs=0.2)  # the table's
    assert 0 < abs(found["exact"] - found["compressed"]) < 0.1


@pytest.mark.parametrize(("recipe", "blue"), [("thesis", 104.0), ("published_code", 103.53)])
def test_bn_inception_takes_the_mean_of_its_recipe_off(recipe, blue):
    examples = Examples(np.zeros(1, int), paths=np.array(["image.png"]))
    config = resolve("cub200", "c2", "gap", recipe, "full", {"weights": "none"})
    network = build.build_backbone(config, Dataset("files", examples, examples))
    assert network.get_layer("input_normalization").mean[0] == pytest.approx(blue)


def test_the_output_stride_reaches_the_network_and_the_hash():
    examples = Examples(np.zeros(1, int), paths=np.array(["image.png"]))
    values = {"backbone": "mobilenet_v2", "weights": "none", "image_size": 64}
    usual, same, dilated = (
        resolve("cub200", "c2", "gap", "thesis", "full", {**values, **stride})
        for stride in ({}, {"output_stride": 32}, {"output_stride": 16})
    )
    assert usual.hash("data") == same.hash("data") != dilated.hash("data")
    assert ("output_stride" in usual.stored(), dilated.stored()["output_stride"]) == (False, 16)
    network = build.build_backbone(dilated, Dataset("files", examples, examples))
    assert network(np.zeros((1, 64, 64, 3))).shape == (1, 4, 4, 1280)


@pytest.mark.parametrize("name", build.LOSSES)
def test_every_loss_builds_and_learns(name):
    config = resolve("glyphs", name, "gap", "thesis", "demo", {})
    loss, points = build.build_loss(config, 4), tf.Variable(EMBEDDINGS)
    with tf.GradientTape() as tape:
        value = loss(tf.convert_to_tensor(points), LABELS, training=True)
    gradients = tape.gradient(value, [points, *loss.trainable_variables])
    assert value > 0
    assert all(np.any(tf.convert_to_tensor(gradient) != 0) for gradient in gradients)


@pytest.mark.parametrize("name", ["margin+distance", "c2+semihard+rho", "snr_triplet+softhard+rho+xbm"])
def test_the_parts_of_a_name_are_built_around_the_loss(name):
    config = resolve("cub200", name, "gap", "thesis", "full", {"classes_per_batch": 4})
    loss = build.build_loss(config, 4)
    if name.endswith("xbm"):
        assert loss.memory.memory_size == 25 * config.batch_size
        loss = loss.loss
    assert loss.miner == {"margin": "distance_weighted", "c2": "semi_hard"}.get(name.split("+")[0], "soft_hard")
    assert loss.rho_probability == {"margin": 0.0, "c2": 0.4}.get(name.split("+")[0], 0.3)
    assert loss(EMBEDDINGS, LABELS, training=True) > 0


def test_the_delay_of_the_prototypes_memory_is_counted_in_images():
    config = resolve("glyphs", "c2", "gsp", "thesis", "demo", {"gsp_memory_delay": 3})
    assert build.build_head(config).pooling.memory_delay == 3 * config.batch_size == 192


@pytest.mark.parametrize("name", ["xbm_fills_first", "xbm_holds_batch"])
def test_the_two_habits_of_the_memory_are_told_apart(name):
    loss = build.build_loss(resolve("glyphs", "c1+xbm", "gap", "thesis", "demo", {name: True}), 4)
    found = {"xbm_fills_first": loss.fill_before_start, "xbm_holds_batch": loss.enqueue_first}
    assert found == {other: other == name for other in found}


def test_the_memory_s_terms_are_flags_and_exclude_each_other():
    loss = build.build_loss(resolve("glyphs", "c1+xbm", "gap", "thesis", "demo", {"xbm_terms": "union"}), 4)
    assert (loss.terms, loss.weight) == ("union", 1.0)
    loss = build.build_loss(resolve("glyphs", "c1+xbm", "gap", "thesis", "demo", {"xbm_weight": 0.5}), 4)
    assert (loss.terms, loss.weight) == ("sum", 0.5)
    for beside, message in (({"xbm_weight": 0.5}, "--xbm_weight would"), ({"xbm_holds_batch": True}, "image twice")):
        with pytest.raises(InvalidInput, match=message):
            resolve("glyphs", "c1+xbm", "gap", "thesis", "demo", {"xbm_terms": "union", **beside})


def test_the_fingerprint_of_data_knows_all_parts_and_their_order():
    def fingerprint(**parts):
        small = Examples(np.arange(2), inputs=np.zeros((2, 1), np.uint8))
        return build.data_fingerprint(Dataset(**{"name": "small", "train": small, "test": small, **parts}))

    other = Examples(np.arange(2), inputs=np.ones((2, 1), np.uint8))
    fingerprints = [fingerprint(), fingerprint(name="other")]
    fingerprints += [fingerprint(**{part: other}) for part in ("train", "test", "gallery", "validation")]
    assert fingerprint() == fingerprints[0]
    assert len({*fingerprints[:4]}) == 4
    assert not {*fingerprints[4:]} & {*fingerprints[:4]}
