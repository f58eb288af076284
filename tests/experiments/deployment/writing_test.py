import json
import re

import numpy as np
import pytest

from common.deployment import load_embedder
from common.deployment.formats import FORMATS
from common.errors import InvalidInput
from common.files import read_json, write_json
from common.retrieval import evaluate_retrieval
from common.training.test_embeddings import read_test_embeddings
from experiments.deployment.writing import FORMAT_NAMES, MODEL, export_run, model_writer
from photo_search.photos import bundle
from tests.common.deployment.small_models import needs_onnx
from tests.experiments.deployment.small_runs import finish_untrained, loaded_as
from tests.experiments.tiny_study import TinyStudy
from tests.support.command_line import run_program

pytestmark = pytest.mark.usefixtures("tiny_network")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return TinyStudy(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def run(study, tiny_network):
    return finish_untrained(study, study.config("c2", "gap"))


def front_matter(text):
    """Top-level fields of the YAML between the first two lines of hyphens; values that are lists are left out."""
    front = text.split("---\n")[1]
    assert text.startswith("---\n")
    return dict(line.split(": ", 1) for line in front.splitlines() if re.match(r"\w+: ", line)), front


def test_a_run_becomes_a_model_with_its_card(study, run, tmp_path, monkeypatch):
    with loaded_as(monkeypatch, study.dataset):
        written = export_run(run, "keras", tmp_path / "mine" / MODEL)
    assert written.agreement.num_checked == len(study.dataset.test)
    assert written.agreement.difference <= 1e-6
    embedder = load_embedder(written.path)
    stored = read_test_embeddings(run)["queries"]
    np.testing.assert_allclose(embedder.embed(study.dataset.test.arrays[:10]), stored[:10], atol=1e-6)
    assert (embedder.image_size, embedder.embedding_dim, embedder.channels) == (16, 8, 1)
    assert sorted(path.name for path in written.path.parent.iterdir()) == ["README.md", MODEL]
    fields, front = front_matter(written.card.read_text())
    assert (fields["library_name"], fields["pipeline_tag"]) == ("keras", "image-feature-extraction")
    test = read_json(run / "result.json")["test"]
    values = re.findall(r'name: "(MAP@R|P@1)"\n      value: (.+)', front)
    assert dict(values) == {name: f"{test[name]:.6f}" for name in ("MAP@R", "P@1")}
    for quoted in re.findall(r'^\s*-? ?(?:name|type)?:? ?(".*")$', front, re.MULTILINE):
        assert isinstance(json.loads(quoted), str)  # names are anybody's
    text = written.card.read_text()
    assert "dml train_final" not in text
    for phrase in (
        "30 examples of 6 other classes",
        "<letter & 0>",
        "fold 0 of the 2 folds",
        "What it is not for",
        "MIT licence",
        "EXIF orientation and colour profiles are applied to files and encoded images.",
    ):
        assert phrase in text
    assert re.search(rf"\| MAP@R \| {100 * test['MAP@R']:.2f} \| \[\d+\.\d\d, \d+\.\d\d\] \| 12.50 \|", text)
    assert "few of them" in text  # six test classes
    assert ("Training did not beat" in text) == (test["MAP@R"] <= 0.125)


def test_flags_name_the_formats_that_there_are():
    assert {*FORMAT_NAMES} == {*FORMATS}
    assert {*bundle.FORMATS} == {name for name, form in FORMATS.items() if form.ending == ".tflite"}


def test_a_training_that_has_not_helped_is_called_so(study, tiny_network, tmp_path, monkeypatch):
    """A fold whose study also chooses among other models names the command that makes the chosen one."""
    own = TinyStudy(tmp_path)
    path = finish_untrained(own, own.config("c2", "gap", interpolation="0"))
    for name in ("result.json", "result.copy.json"):
        result = read_json(path / name)
        write_json(path / name, {**result, "untrained": {**result["untrained"], "MAP@R": 0.999}})
    with loaded_as(monkeypatch, own.dataset):
        text = export_run(path, "keras").card.read_text()
    assert "**Training did not beat the untrained backbone's average features (MAP@R " in text
    assert f"`dml train_final --run={path.parent}` makes the model that validation in all folds chose." in text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tflite_float16", "tflite_int8"])
def test_the_card_of_a_rounded_model_has_retrieval_before_and_after(study, run, name, tmp_path, monkeypatch):
    with loaded_as(monkeypatch, study.dataset):
        written = export_run(run, name, tmp_path / "model.tflite", num_checked=1000)
    text, stored, test = written.card.read_text(), read_test_embeddings(run)["queries"], study.dataset.test
    found = FORMATS[name].read(written.path)(test.arrays.astype(np.float32))
    before, after = (100 * evaluate_retrieval(rows, test.labels).map_at_r for rows in (stored, found))
    said = f"MAP@R among these {len(test)} images: {before:.2f} % before rounding, {after:.2f} % after."
    assert said in text
    calibrated = re.search(r"Learnt from (\d+) examples .*Calibrated on (\d+) examples that", text, re.DOTALL)
    assert calibrated is None if name == "tflite_float16" else calibrated[1] == calibrated[2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["keras", "savedmodel", "tflite_int8", pytest.param("onnx", marks=needs_onnx)])
def test_the_card_s_code_runs_in_another_process(study, run, name, tmp_path, monkeypatch):
    with loaded_as(monkeypatch, study.dataset):
        written = export_run(run, name, tmp_path / f"model{FORMATS[name].ending}")
    found = re.search(r"```python\n(.*?)```\n```text\n(.*?)```", written.card.read_text(), re.DOTALL)
    said = run_program(["-c", found[1]], tmp_path)  # which has imported nothing of this project
    assert (said.returncode, said.stdout) == (0, found[2]), said.stderr


@pytest.mark.slow
def test_keras_alone_reads_a_model_of_gsp_with_the_imports_of_the_card(study, tmp_path, monkeypatch):
    """In a process that has none of the data, by `keras.models.load_model`; ten test images."""
    path = finish_untrained(study, study.config("c2", "gsp", num_prototypes=4, gsp_memory_size=8, num_iterations=5))
    with loaded_as(monkeypatch, study.dataset):
        written = export_run(path, "keras", tmp_path / MODEL)
    imports = re.search(r"With Keras alone: `(import [\w., ]+)`", written.card.read_text())[1]
    assert "gsp_dml" in imports
    np.save(tmp_path / "images.npy", study.dataset.test.arrays[:10])
    program = (
        f"{imports}\nimport numpy as np\nfrom tensorflow import keras\n"
        "embeddings = keras.models.load_model('model.keras').predict(np.load('images.npy'), verbose=0)\n"
        "np.save('embeddings.npy', embeddings)"
    )
    said = run_program(["-c", program], tmp_path)  # which has imported nothing of this project, nor of Keras' layers
    assert said.returncode == 0, said.stderr
    stored = read_test_embeddings(path)["queries"][:10]
    np.testing.assert_allclose(np.load(tmp_path / "embeddings.npy"), stored, atol=1e-6)


def test_weights_of_another_run_are_refused_and_nothing_is_written(study, tiny_network, tmp_path, monkeypatch):
    other = finish_untrained(TinyStudy(tmp_path / "runs"), study.config("c2", "gap", embedding_dim=4))
    embeddings = dict(np.load(other / "test_embeddings.npz"))
    np.savez(other / "test_embeddings.npz", **{**embeddings, "queries": embeddings["queries"][::-1]})
    with loaded_as(monkeypatch, study.dataset), pytest.raises(InvalidInput, match="not of one run. Delete"):
        export_run(other, "keras")
    assert not (other / MODEL).exists()


def test_weights_that_are_no_numbers_are_refused(study, run, tmp_path, monkeypatch):
    from experiments.deployment import run_model

    load = run_model.load_trained_model

    def spoiled(*arguments, **options):
        trained = load(*arguments, **options)
        kernel = trained.model.head.projection.kernel
        kernel.assign(np.nan * np.ones_like(kernel))
        return trained

    monkeypatch.setattr(run_model, "load_trained_model", spoiled)
    with loaded_as(monkeypatch, study.dataset), pytest.raises(InvalidInput, match="differ by nan.*not of one run"):
        export_run(run, "keras", tmp_path / MODEL)


def test_a_wrong_model_is_refused(study, run, tmp_path, monkeypatch):
    from experiments.deployment import run_model

    right = run_model.model_of

    def wrong(trained):
        trained.model.head.projection.kernel.assign_add(1e-3 * np.ones_like(trained.model.head.projection.kernel))
        return right(trained)

    with loaded_as(monkeypatch, study.dataset):
        monkeypatch.setattr(run_model.RunModel, "_check_network", lambda self: wrong(self.trained))
        with pytest.raises(InvalidInput, match=r"as keras gives embeddings that differ by .* Nothing was written"):
            export_run(run, "keras", tmp_path / MODEL)
    assert list(tmp_path.iterdir()) == []


def test_a_readme_that_is_no_card_is_kept(study, run, tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("# My project\n")
    with loaded_as(monkeypatch, study.dataset), pytest.raises(InvalidInput, match="Choose another folder"):
        export_run(run, "keras", tmp_path / MODEL)
    assert [path.name for path in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize(
    ("name", "output", "message"),
    [
        ("tflite", "model", "expected a name that ends in .tflite"),
        ("savedmodel", "there", "expected a place where there is no folder yet"),
        ("onnx", "there/model.onnx", r"without the card of another model \(README.md describes first.keras\)"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_loaded(name, output, message, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "README.md").write_text("---\nlibrary_name: keras\n---\nWritten as `first.keras`.\n")
    (tmp_path / "there" / "first.keras").write_text("")
    with pytest.raises(InvalidInput, match=message):
        export_run(tmp_path / "no run", name, tmp_path / output)


def test_a_pooling_that_a_format_lacks_is_refused_before_the_data_are_loaded(study):
    run = study.finish(study.config("c2", "gemax"), 0)
    with pytest.raises(InvalidInput, match="received 'onnx', expected keras or savedmodel: it lacks the Cholesky"):
        export_run(run, "onnx")


def test_a_finished_run_gets_its_model_once(study, tmp_path):
    own = TinyStudy(tmp_path)
    path = finish_untrained(own, own.config("c2", "gap"))
    write = model_writer(own.dataset, None)
    write(path)
    before = (path / MODEL).stat().st_mtime_ns
    write(path)
    assert (path / MODEL).stat().st_mtime_ns == before
    assert (path / "README.md").exists()
    assert [name.name for name in path.glob(".*")] == []


def test_a_run_that_cannot_be_written_is_told_of_once(study, tmp_path, capsys):
    own = TinyStudy(tmp_path)
    paths = [finish_untrained(own, own.config("c2", "gap"), fold) for fold in (0, 1)]
    for path in paths:
        write_json(path / "config.json", {**read_json(path / "config.json"), "data": "other"})
    write = model_writer(own.dataset, None)
    for path in paths:
        write(path)
    shown = capsys.readouterr().err
    assert shown.count(f"warning: no {MODEL} in") == 1
    assert "the configuration in its config.json was changed" in shown
    assert not any((path / MODEL).exists() for path in paths)
