import csv
import json
import re
import shlex
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.pretrained_weights import save_parameters
from common.data import find_image_files, load_image_folder
from common.deployment import load_embedder
from common.deployment.untrained import POOLINGS, UntrainedNetwork
from common.retrieval import evaluate_retrieval
from experiments.runs.trained_model import load_trained_model
from photo_search.index import EmbeddingIndex
from tests.experiments.tiny_network import CHANNELS, in_place_of_small_networks, tiny_network
from tests.support.command_line import (
    ONE_EVALUATION,
    SMALL_PHOTOGRAPHS,
    check_clean_failure,
    done_here,
    done_small_here,
    run_here,
    run_small_here,
)
from tests.support.eager_functions import eagerly


def done(module, *arguments):
    """The output of a command that succeeds; Keras counts its layers from 0, as in a new process."""
    tf.keras.backend.clear_session()
    finished = done_small_here(f"experiments.{module}", *arguments)
    return finished.stdout


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A file of "trained" parameters of the tiny network."""
    path = tmp_path_factory.mktemp("weights") / "tiny.npz"
    save_parameters(tiny_network(3), path)
    return path


@pytest.fixture(scope="module")
def network(weights):
    return ["--backbone=resnet10", f"--weights={weights}", "--image_size=32"]


@pytest.fixture(scope="module")
def index(image_folder, network, tmp_path_factory):
    """The folder of an index that was made without a model."""
    folder = tmp_path_factory.mktemp("untrained") / "ix"
    said = done("search", "index", f"--images={image_folder}", f"--index={folder}", *network)
    assert re.match(r"Embedding by resnet10 without training: weights sha256:\w+, pooling gap, 32 pixels\.\n", said)
    return folder


def test_an_index_keeps_its_network(index, image_folder, network, tmp_path):
    query = f"--images={image_folder / 'class03' / '1.png'}"
    found = done("search", "neighbours", f"--index={index}", query, "--k=2")
    assert "without training" not in found
    *_, said = lines = found.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["rank", query.removeprefix("--images="), "1", "2"]
    assert "are of the same class" in said
    embedder = load_embedder(index / "model.keras")
    assert EmbeddingIndex.load(index).model_digest == embedder.digest
    refused = run_here("photo_search.search", "neighbours", f"--index={index}", query, "--backbone=resnet10")
    check_clean_failure(refused, "--backbone", "the index keeps its own model")

    model = tmp_path / "model.keras"
    shutil.move(shutil.copytree(index, tmp_path / "old") / "model.keras", model)  # as an index of before
    old = ["neighbours", f"--index={tmp_path / 'old'}", query, "--k=2"]
    check_clean_failure(run_here("photo_search.search", *old), "Missing --model", embedder.digest, "keeps no model")
    assert done("search", *old, f"--model={model}") == found
    # the same network, made again, has the same digest
    assert found in done("search", *old, *network)
    other = run_small_here("photo_search.search", *old, *network[:2], "--image_size=16")
    check_clean_failure(other, "the model that made the index", "digest")


def test_other_commands_embed_as_the_index_does(index, image_folder, network, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vectors = np.asarray(EmbeddingIndex.load(index).embeddings)
    done("search", "embed", f"--images={image_folder}", "--output=photos.npz", *network)
    np.testing.assert_allclose(np.load("photos.npz")["embeddings"], vectors, atol=1e-6)
    pairs = done("search", "duplicates", f"--images={image_folder}", "--threshold=0.99", *network).splitlines()
    assert pairs[1:] == done("search", "duplicates", f"--index={index}", "--threshold=0.99").splitlines()
    examined = done("clinic", f"--images={image_folder}", "--threshold=0.99", *network, "--output=one").splitlines()
    assert examined[1] == done("clinic", f"--index={index}", "--threshold=0.99", "--output=two").splitlines()[0]
    assert (tmp_path / "one" / "findings.csv").read_bytes() == (tmp_path / "two" / "findings.csv").read_bytes()
    done("export", *network, "--output=exported/model.keras")
    exported = load_embedder(tmp_path / "exported" / "model.keras")
    assert exported.digest == load_embedder(index / "model.keras").digest
    card = (tmp_path / "exported" / "README.md").read_text()
    assert "# resnet10, not trained by this project" in card
    assert "Output stride" not in card
    (block,) = re.findall("```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path / "exported")
    exec(block, {})
    said = done("export", *network, "--format=tflite_int8", f"--images={image_folder}", "--output=small/m.tflite")
    photos = find_image_files(str(image_folder))
    measured = re.compile(rf"Calibrated on {min(100, len(photos))} of your.*: (\S+) % before rounding, (\S+) % after")
    assert measured.search(said.replace("\n", " "))
    assert measured.search((tmp_path / "exported" / "small" / "README.md").read_text())


@pytest.mark.slow
def test_figures_equal_those_of_fair_eval(image_folder, network, tmp_path):
    """On the prepared copies that it evaluates; its last line exports the better network."""
    photographs = [each for each in SMALL_PHOTOGRAPHS if "--weights" not in each and "--image_size" not in each]
    places = [f"--data_dir={image_folder}", f"--cache_dir={tmp_path / 'cache'}"]
    short = [*ONE_EVALUATION, "--loss=c2", "--pooling=gap", "--num_folds=2", "--noexport_model"]
    said = done("fair_eval", *photographs, *network[1:], *places, *short, f"--runs_dir={tmp_path / 'runs'}")
    runs = sorted((tmp_path / "runs").rglob("result.json"))
    results = [json.loads(path.read_text()) for path in runs]
    trained, untrained = (np.mean([result[of]["MAP@R"] for result in results]) for of in ("test", "untrained"))
    last = shlex.split(said.splitlines()[-1])
    better = network if untrained >= trained else [f"--run={runs[0].parent}", places[0]]
    assert last == ["dml", "export", *better, "--output=exported/model.keras"]

    data = load_image_folder(str(image_folder))
    with in_place_of_small_networks():
        test = load_trained_model(runs[0].parent, dataset=data, cache_dir=str(tmp_path / "cache")).dataset.test
    with open(tmp_path / "copies.csv", "w", newline="") as file:
        csv.writer(file).writerows([("path", "label"), *zip(test.file_names, test.labels)])
    done("search", "index", f"--images={tmp_path / 'copies.csv'}", f"--index={tmp_path / 'ix'}", *network)
    index = EmbeddingIndex.load(tmp_path / "ix")
    classes = np.unique(index.labels, return_inverse=True)[1]
    figures = evaluate_retrieval(np.asarray(index.embeddings), classes).as_dict()
    for name in ("P@1", "MAP@R"):
        assert figures[name] == pytest.approx(results[0]["untrained"][name], abs=1e-4)


@pytest.mark.parametrize("pooling", [name for name in POOLINGS if name != "cls"])  # of transformers
def test_poolings_need_no_training(pooling, weights):
    with in_place_of_small_networks():
        model = UntrainedNetwork("resnet10", str(weights), pooling, 32).check().model()
    assert model.output_shape[-1] in (CHANNELS, 2 * CHANNELS)


def test_larger_maps_are_in_the_model_and_on_the_card(tmp_path):
    """EfficientNet-lite0 itself, since no small network has an output stride."""
    output = tmp_path / "model.keras"
    arguments = ["--backbone=efficientnet_lite0", "--image_size=64", "--output_stride=16", f"--output={output}"]
    with eagerly(True):
        done_here("experiments.export", *arguments)
    assert "| Output stride | 16 |" in (tmp_path / "README.md").read_text()
    network = load_embedder(output).model.get_layer("network")
    (backbone,) = (layer for layer in network.layers if hasattr(layer, "layers"))
    assert backbone(np.zeros((1, 64, 64, 3))).shape[1:3] == (4, 4)
