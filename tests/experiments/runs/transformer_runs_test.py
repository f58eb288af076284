import json

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import vision_transformer
from common.commands.plugins import Provider
from common.deployment import load_embedder
from common.errors import InvalidInput
from experiments.deployment.run_model import RunModel
from experiments.deployment.writing import model_writer
from experiments.recipes import resolve
from experiments.runs.start_checks import check_unit
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from experiments.settings.plugins import Registry
from tests.experiments.patterned_images import patterned_images
from tests.experiments.settings.plugin_tables import restored_tables
from tests.support import presets
from tests.support.command_line import run_program
from tests.support.eager_functions import eagerly

keras = tf.keras
SETTINGS = {
    "num_folds": 2,
    "embedding_dim": 8,
    "crop": "none",
    "classes_per_batch": 2,
    "samples_per_class": 2,
    "learning_rate": 1e-3,
    "steps_per_evaluation": 1,
    "max_steps": 2,
}
GSP = {"num_prototypes": 4, "gsp_memory_size": 16}
READS = """
import sys
import numpy as np
from common.deployment import load_embedder
embeddings = load_embedder(sys.argv[1]).embed(np.load(sys.argv[2]))
np.save(sys.argv[3], embeddings)
"""


def configuration(backbone, pooling="gap", loss="c2", **overrides):
    own = {**SETTINGS, "image_size": 32, "backbone": backbone, **(GSP if pooling == "gsp" else {})}
    return resolve("cifar10", loss, pooling, "thesis", "smoke", {**own, **overrides})


def trained(runs, config):
    runs.train(config, fold=0, repeat=0, checkpoint_seconds=0)
    path = runs.unit_dir(config, 0, 0)
    metrics = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return path, metrics, np.load(path / "test_embeddings.npz")["queries"]


def small_vit(input_channels=3, *, frozen_batch_norm=True, weights="none", image_size=32, tokens="patches", **prompts):
    return vision_transformer("small", 12, 2, 3, 8, input_channels, weights, image_size, tokens, **prompts)


@pytest.fixture(autouse=True)
def small_transformer(monkeypatch, functions_run_eagerly):
    monkeypatch.setitem(build.BACKBONES, "vit_small_16", small_vit)


@pytest.fixture(scope="module")
def dataset():
    return patterned_images(6, 4, copies=4)


@pytest.fixture
def runs(dataset, tmp_path):
    return UnitRuns(dataset, Places(str(tmp_path / "runs"), str(tmp_path / "cache")))


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory):
    return f"kerashub:{presets.tiny_dinov2(tmp_path_factory.mktemp('dinov2'))}"


def assert_runs_loads_and_deploys(runs, config, dataset, tmp_path):
    """Trains, loads and writes a run, which another process reads; returns what has been loaded."""
    path, metrics, queries = trained(runs, config)
    assert [line["step"] for line in metrics] == [1, 2]
    if config.learning_rate_schedule == "cosine":
        assert [line["learning_rate"] for line in metrics] == pytest.approx([1e-3, 5e-4])
    losses = [line["loss"] for line in metrics]
    print(config.name, "losses", losses)
    assert np.isfinite(losses).all()
    loaded = load_trained_model(path, dataset=dataset)
    again = loaded.model.embed(loaded.inputs(loaded.dataset.test))
    np.testing.assert_allclose(again, queries, atol=1e-2 if config.cached_features else 1e-5)
    model_writer(dataset, runs.cache_dir)(path)
    images, embeddings = tmp_path / "images.npy", tmp_path / "embeddings.npy"
    np.save(images, dataset.test.inputs)
    arguments = ["-c", READS, str(path / "model.keras"), str(images), str(embeddings)]
    finished = run_program(arguments)  # a process that has imported nothing of this project, nor of keras-hub
    assert finished.returncode == 0, finished.stderr
    np.testing.assert_allclose(np.load(embeddings), again, atol=1e-5)
    return loaded


FROZEN = {"trained_from": "head", "optimizer": "adamw", "learning_rate_schedule": "cosine"}


@pytest.mark.parametrize(
    "pooling",
    ["gap", *(pytest.param(each, marks=pytest.mark.release) for each in ("cls", "gsp"))],
)
def test_a_frozen_preset_trains_loads_and_is_deployed(pooling, runs, dataset, dinov2, tmp_path):
    """With graphs for one pooling; the next but one trains `cls`."""
    config = configuration(dinov2, pooling, **FROZEN)
    assert config.weights == "preset"
    with eagerly(pooling != "gap"):
        assert_runs_loads_and_deploys(runs, config, dataset, tmp_path)


@pytest.mark.release
@pytest.mark.parametrize("pooling", ["cls", "gap", "gsp"])
def test_the_shapes_of_dinov2_small(pooling, tmp_path_factory, tmp_path):
    """Two blocks of its twelve, of the same shapes: a pooling sees what the last one gives."""
    folder = tmp_path_factory.getbasetemp() / "dinov2_small"
    preset = folder if folder.exists() else presets.dinov2_small(folder)
    photographs = patterned_images(4, 2, size=224, copies=3)
    own = UnitRuns(photographs, Places(str(tmp_path / "runs"), str(tmp_path / "cache")))
    config = configuration(f"kerashub:{preset}", pooling, **FROZEN, image_size=224)
    lower = assert_runs_loads_and_deploys(own, config, photographs, tmp_path).model.backbone.lower
    assert tuple(lower.output.shape) == ((None, 1, 1, 384) if pooling == "cls" else (None, 16, 16, 384))


def test_a_run_can_be_cut_between_blocks(runs, dataset):
    config = configuration("vit_small_16", "gap", trained_from="blocks.1")
    path, _, queries = trained(runs, config)
    loaded = load_trained_model(path, dataset=dataset)
    assert len(loaded.model.backbone.trainable_variables) == 12 + 2  # the last block, and the last normalisation
    assert tuple(loaded.model.backbone.lower.output.shape) == (None, 17, 12)
    model = RunModel(path, dataset, runs.cache_dir).model
    np.testing.assert_allclose(model(dataset.test.inputs), queries, atol=1e-2)


@pytest.mark.default_stack
@pytest.mark.parametrize(
    ("network", "precision", "limit"),
    [
        pytest.param("vit_small_16", "float32", 1e-5, marks=pytest.mark.release),
        ("vit_small_16", "mixed_bfloat16", 1e-2),
        pytest.param("dinov2", "float32", 1e-5, marks=pytest.mark.release),
    ],
)
def test_a_run_of_low_rank_updates_is_exported_merged(network, precision, limit, runs, dataset, request, tmp_path):
    if network == "dinov2":
        network = request.getfixturevalue("dinov2")
    config = configuration(network, lora_rank=2, learning_rate=0.1, precision=precision)
    path, _, queries = trained(runs, config)
    loaded = load_trained_model(path, dataset=dataset)
    before = {id(weight): np.array(weight) for weight in loaded.model.backbone.weights}
    assert {weight.name for weight in loaded.model.backbone.trainable_weights} == {"lora_kernel_a", "lora_kernel_b"}
    assert all(before[id(w)].any() for w in loaded.model.backbone.trainable_weights)  # B left its zeros
    images = loaded.inputs(loaded.dataset.test)
    np.testing.assert_allclose(loaded.model.embed(images), queries, atol=1e-5)
    model_writer(dataset, runs.cache_dir)(path)
    exported = load_embedder(path / "model.keras").model
    assert not [weight.path for weight in exported.weights if "lora" in weight.path]
    difference = np.abs(exported(dataset.test.inputs).numpy() - queries).max()
    print(network, "merged against unmerged", difference)
    assert difference < limit


@pytest.mark.parametrize("blocks", ["first", pytest.param("all", marks=pytest.mark.release)])
def test_a_run_trains_prompts_alone(blocks, runs, dataset, tmp_path):
    config = configuration("vit_small_16", "cls", num_prompts=3, prompt_blocks=blocks, learning_rate=0.1)
    loaded = assert_runs_loads_and_deploys(runs, config, dataset, tmp_path)
    network = loaded.model.backbone
    prompted = {"all": ["blocks.0.prompts", "blocks.1.prompts"], "first": ["blocks.0.prompts"]}[blocks]
    assert [layer.name for layer in network.layers if layer.trainable_weights] == prompted


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"backbone": "resnet10", "lora_rank": 2},
            "--lora_rank: received '2 for --backbone=resnet10', expected a transf",
        ),
        ({"lora_rank": 2, "trained_from": "head"}, "--trained_from and --lora_rank say what is trained, each"),
        ({"lora_rank": 2, "num_prompts": 2}, "--lora_rank and --num_prompts say what is trained"),
        ({"backbone": "kerashub:tiny", "num_prompts": 2}, "'2 for --backbone=kerashub:tiny', expected one of vit_"),
        ({"prompt_blocks": "first"}, "--prompt_blocks would have no effect without --num_prompts"),
        ({"lora_norms": True}, "--lora_norms would have no effect without --lora_rank"),
    ],
)
def test_parts_that_cannot_be_trained_are_refused(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        configuration(**{"backbone": "vit_small_16", **overrides})


@pytest.mark.default_stack
def test_a_plug_in_s_network_takes_low_rank_updates_if_it_has_dense_layers(dataset):
    def own_vit(input_channels: int):
        return small_vit(input_channels)

    def own_convolution(input_channels: int):
        images = keras.Input((None, None, input_channels))
        return keras.Model(images, keras.layers.Conv2D(8, 3)(images))

    with restored_tables():
        registry = Registry(Provider("own", "", "sha256:0123456789abcdef"))
        registry.backbone("own_vit", own_vit)
        registry.backbone("own_convolution", own_convolution)
        config = configuration("own_vit", lora_rank=2)
        check_unit(config, dataset, 0, 0)
        trained_weights = build.build_model(config, dataset, num_classes=3, seed=0).backbone.trainable_weights
        assert {weight.name for weight in trained_weights} == {"lora_kernel_a", "lora_kernel_b"}
        for setting, message in [({"lora_rank": 2}, "which has dense layers"), ({"layer_decay": 0.5}, "two blocks")]:
            with pytest.raises(InvalidInput, match=message):
                check_unit(configuration("own_convolution", **setting), dataset, 0, 0)


def test_a_preset_s_folder_is_part_of_the_run_s_identity(dinov2, tmp_path):
    config = configuration(dinov2)
    other = configuration(f"kerashub:{presets.tiny_dinov2(tmp_path)}")
    digests = [each.identity("data")["preset"] for each in (config, other)]
    assert digests[0].startswith("sha256:")
    assert digests[0] != digests[1]
    assert configuration("vit_small_16").identity("data").keys().isdisjoint({"preset"})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"backbone": "resnet10", "pooling": "cls"}, "--backbone of --pooling=cls.*resnet10.*class token"),
        ({"backbone": "vit_small_16", "image_size": 36}, "image_size.*36.*multiple of 8"),
        ({"backbone": "vit_small_16", "weights": "preset"}, "--weights.*preset.*none, imagenet or a file"),
        (
            {"backbone": "vit_small_16", "trained_from": "blocks.9"},
            r"blocks\.9.*head.*blocks\.1",
        ),
    ],
)
def test_what_does_not_fit_is_refused_before_a_run_begins(overrides, message, dataset):
    with pytest.raises(InvalidInput, match=message):
        check_unit(configuration(**overrides), dataset, 0, 0)
