import re

import pytest

from common.deployment import load_embedder
from tests.support.command_line import ONE_EVALUATION, SMALL_PHOTOGRAPHS, done_small_here

FEW = [*ONE_EVALUATION, "--num_folds=2", "--loss=c2", "--pooling=gap"]


@pytest.fixture(scope="module")
def finished(image_folder, tmp_path_factory):
    """The places of a finished study of two folds, its folder, and how many models each command has left."""
    folder, num_models = tmp_path_factory.mktemp("export"), []
    places = [f"--data_dir={image_folder}", f"--cache_dir={folder / 'cache'}"]
    for flags in (["--fold=0", "--noexport_model"], ["--fold=0", "--report_only"], []):
        arguments = [*SMALL_PHOTOGRAPHS, *FEW, *places, f"--runs_dir={folder / 'runs'}", *flags]
        done_small_here("experiments.fair_eval", *arguments)
        num_models.append(len(list(folder.rglob("model.keras"))))
    (method,) = (folder / "runs" / "fair" / "folder").glob("c2+gap-*")
    return places, method, num_models


@pytest.mark.slow
def test_each_fold_has_a_model_and_a_card(finished, image_folder):
    _, method, _ = finished
    assert sorted(path.parent.name for path in method.rglob("model.keras")) == ["fold0-repeat0", "fold1-repeat0"]
    embedder = load_embedder(method / "fold0-repeat0" / "model.keras")
    photographs = sorted(image_folder.glob("*/*.png"))[:10]
    assert embedder.embed(photographs).shape == (10, 16)
    assert embedder.image_size == 32
    text = (method / "fold0-repeat0" / "README.md").read_text()
    similarity = re.search(r"Original files instead of the prepared copies .*: cosine similarity .* (\d\.\d+) on", text)
    assert 0.9 < float(similarity[1]) <= 1
    assert "Enter the licence in the front matter" in text


def test_without_the_flag_there_is_no_model_and_later_there_is(finished):
    assert finished[-1] == [0, 0, 2]


@pytest.mark.slow
def test_a_run_is_exported_and_compared(finished, tmp_path):
    places, method, _ = finished
    run = f"--run={method / 'fold0-repeat0'}"
    said = done_small_here(
        "experiments.export", run, f"--output={tmp_path / 'm' / 'mine.keras'}", "--num_checked=12", *places
    )
    differences = re.search(r"on 12 test images: .* test embeddings (\S+), .* again (\S+)\.\n", said.stdout)
    assert all(float(difference) <= 1e-6 for difference in differences.groups())
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["README.md", "mine.keras"]


@pytest.mark.slow
def test_a_run_on_cached_features_has_the_whole_network(finished, tmp_path):
    """Its features were kept in half precision, so that the model is compared with the network of the run."""
    places, _, _ = finished
    cut = ["--trained_from=head", "--views=1", "--fold=0", f"--runs_dir={tmp_path}"]
    done_small_here("experiments.fair_eval", *SMALL_PHOTOGRAPHS, *FEW, *places, *cut)
    (model,) = tmp_path.rglob("model.keras")
    text = model.with_name("README.md").read_text()
    stored, network = re.search(r"test embeddings (\S+), from its network computed again (\S+)\.", text).groups()
    assert float(network) <= 1e-6 < float(stored) < 1e-2


@pytest.mark.slow
def test_a_run_on_tokens_has_a_model_of_tokens(tmp_path):
    few = [*ONE_EVALUATION, f"--runs_dir={tmp_path}", f"--cache_dir={tmp_path / 'cache'}"]
    tokens = ["--dataset=synthetic_tokens", "--loss=pnca", "--pooling=gap", "--budget=smoke", "--fold=0"]
    done_small_here("experiments.fair_eval", *tokens, *few)
    (model,) = tmp_path.rglob("model.keras")
    embedder = load_embedder(model)
    assert (embedder.image_size, embedder.channels) == (None, None)
    assert "Maps tokens to embeddings" in model.with_name("README.md").read_text()
