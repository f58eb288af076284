import numpy as np
import pytest

from common.deployment import load_embedder
from common.errors import InvalidInput
from experiments.deployment import zoo
from experiments.runs.start_checks import check_hours
from experiments.settings.places import Places
from tests.command_line import check_clean_failure, run_here

pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")
SMALL = {
    **{"backbone": "resnet10", "weights": "none", "frozen_batch_norm": False, "image_size": 32, "embedding_dim": 16},
    **{"classes_per_batch": 4, "samples_per_class": 2, "learning_rate": 0.001, "warm_up_epochs": 0},
    **{"max_steps": 4, "steps_per_evaluation": 2},
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(tmp_path, cache, image_folder, monkeypatch):
    """A small model, under the name of a large one."""
    monkeypatch.setitem(zoo.RECIPES, "caltech101", zoo.Recipe("patterns", "folder", SMALL))
    said = zoo.make("caltech101", Places(str(tmp_path / "runs"), data_dir=str(image_folder)), tmp_path / "zoo")
    return said, tmp_path / "zoo" / "caltech101" / "caltech101.keras"


def test_a_made_model_is_installed_and_found_by_its_name(made, cache, image_folder):
    said, path = made
    photos = sorted(map(str, image_folder.glob("*/*.png")))[:6]
    embedder = load_embedder(path)
    assert embedder.embed(photos).shape == (6, 16)
    assert f"({path.stat().st_size / 1e6:.1f} MB)" in said
    digest, name = path.with_name("caltech101.keras.sha256").read_text().split()
    assert (digest, name) == (embedder.digest, path.name)
    card = path.with_name("README.md").read_text()
    assert "dml zoo make caltech101" in card
    assert 'load_embedder("caltech101.keras")' in card
    kernels = [weight for weight in embedder.model.get_weights() if weight.ndim > 1]
    assert all(np.array_equal(kernel, kernel.astype(np.float16)) for kernel in kernels)

    with pytest.raises(InvalidInput, match="an installed model .*dml zoo make caltech101"):
        zoo.model_path("zoo:caltech101")
    installed = zoo.install(path)
    assert installed == cache / "deep_metric_learning" / "zoo" / "caltech101.keras"
    assert zoo.model_path("zoo:caltech101") == installed
    assert load_embedder(installed).digest == digest
    assert "yes" in zoo.listing()


def test_files_with_another_digest_or_none_are_not_installed(made, monkeypatch):
    path = made[1]
    beside = path.with_name(f"{path.name}.sha256")
    monkeypatch.setitem(zoo.RECIPES, "caltech101", zoo.RECIPES["caltech101"]._replace(sha256="0" * 64))
    with pytest.raises(
        InvalidInput, match=rf"SHA-256 of .*: received '{beside.read_text()[:64]}', expected {'0' * 64}"
    ):
        zoo.install(path)  # the published one counts
    monkeypatch.undo()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InvalidInput, match="SHA-256 of .*dml zoo make"):
        zoo.install(path)
    beside.unlink()
    with pytest.raises(InvalidInput, match=r"its digest beside it, in caltech101\.keras\.sha256"):
        zoo.install(path)


def test_each_recipe_is_a_final_run_and_lists_as_not_published(cache):
    for name, recipe in zoo.RECIPES.items():
        config = zoo.configuration(name)
        assert (config.protocol, config.dataset, config.plateau_patience) == ("final", recipe.dataset, 0)
        assert config.selection_start == config.max_steps - config.steps_per_evaluation
        check_hours([config])
    said = run_here("experiments.zoo")
    assert said.returncode == 0
    assert said.stdout.count("not published") == len(zoo.RECIPES)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["make", "emojis"], ["emojis", "Did you mean emoji?"]),
        (["make"], ["nothing", "one name"]),
        (["fetch", "emoji"], ["'fetch'", "list, make, install"]),
        (["make", "caltech101"], ["--data_dir", "the folder of photographs"]),
        (["make", "emoji", "--data_dir=here"], ["--data_dir", "none: emoji is in the package"]),
        (["install", "emoji.keras"], ["emoji.keras", "a file that exists"]),
        (["install", "other.keras"], ["'other'", "emoji, omniglot, caltech101"]),
        (["--runs_dir=runs"], ["--runs_dir", "list trains nothing"]),
    ],
)
def test_wrong_words_are_refused(arguments, words, cache):
    check_clean_failure(run_here("experiments.zoo", *arguments), *words)
