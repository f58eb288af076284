import dataclasses
import re

import numpy as np
import pytest

from common.backbones import network_names
from common.deployment import load_embedder
from common.errors import InvalidInput
from common.files import read_json, write_json
from common.training import principal_components
from common.training.method import Final
from common.training.test_embeddings import read_test_embeddings
from experiments.deployment.final_run import FinishedStudy, comparison, final_configuration, read_study, train_final
from experiments.recipes import resolve
from experiments.rows.rows import concatenated_embeddings, evaluate_embeddings
from experiments.rows.run_folders import collect
from experiments.settings.places import Places
from experiments.settings.splits import split_of
from experiments.site.groups import read_studies
from tests.experiments.tiny_network import CHANNELS
from tests.experiments.tiny_study import OVERRIDES, TinyStudy

pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")
SHORT = {"max_steps": 9, "steps_per_evaluation": 3, "selection_start": None, "plateau_patience": 0}


def features_of(embedder, images):
    """Average features of the network in a written model."""
    backbone = next(layer for layer in embedder.model.get_layer("network").layers if hasattr(layer, "layers"))
    return np.concatenate([backbone(batch).numpy() for batch in embedder.inputs(images)]).mean(axis=(1, 2))


def select(path, step):
    result = read_json(path / "result.json")
    result["validation"]["best"]["step"] = step
    for name in ("result.json", "result.copy.json"):
        write_json(path / name, result)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study of two folds, of which one selected step 3 and the other step 6."""
    study = TinyStudy(tmp_path_factory.mktemp("final"))
    config = study.config("c2", "gap", **SHORT)
    for fold, step in ((0, 3), (1, 6)):
        select(study.finish(config, fold), step)
    return study, config, study.runs.method_dir(config)


def test_the_settings_are_those_of_the_folds_and_the_steps_their_median(finished):
    study, config, folder = finished
    found = read_study(folder)
    assert found.selected_steps == [3, 6]
    assert found.final.steps == 6  # 4.5, up to a whole number of validations
    final = final_configuration(found, None)
    changed = {"protocol": "final", "max_steps": 6, "selection_start": 3, "plateau_patience": 0}
    assert final == dataclasses.replace(config, **changed)
    assert final.monitor == "MAP@R"
    split = split_of(study.dataset, final, 0, 0)
    assert split.training is study.dataset.train
    assert split.queries.num_classes == split_of(study.dataset, config, 0, 0).queries.num_classes


def test_the_final_model_is_trained_once_and_written(finished, capsys):
    study, _, folder = finished
    found = read_study(folder)
    config = final_configuration(found, None)
    written = train_final(found, study.dataset, config, Places(found.runs_dir))
    path = written.path.parent
    assert path.parent.parent == study.folder / "final" / "glyphs"
    result = read_json(path / "result.json")
    assert (result["steps"], result["validation"]["best"]["step"]) == (6, 6)
    stored = read_test_embeddings(path)["queries"]
    images = study.dataset.test.arrays
    np.testing.assert_allclose(load_embedder(written.path).embed(images), stored, atol=1e-6)
    text = written.card.read_text()
    assert "6 steps are the median of those that validation chose there (3, 6)" in text
    assert "8 of the 8 training classes" in text
    train_final(found, study.dataset, config, Places(found.runs_dir))
    assert read_json(path / "result.json") == result

    table = comparison(found, path)
    embeddings = [read_test_embeddings(folder / f"fold{fold}-repeat0") for fold in (0, 1)]
    for arrays, name in zip([*embeddings, concatenated_embeddings(embeddings)], ("fold 0", "fold 1", "concatenation")):
        line = " ".join(line for line in table.splitlines() if line.startswith(name))
        assert f" {100 * evaluate_embeddings(arrays).as_dict()['MAP@R']:.2f} [" in line
    line = " ".join(line for line in table.splitlines() if line.startswith("final"))
    assert f" {100 * result['test']['MAP@R']:.2f} [" in line
    mean = np.mean([evaluate_embeddings(arrays).as_dict()["MAP@R"] for arrays in embeddings])
    line = " ".join(line for line in table.splitlines() if line.startswith("mean of the 2 folds"))
    assert f"{100 * (result['test']['MAP@R'] - mean):+.2f} [" in line
    # Pages of results leave it out.
    studies, problems = read_studies(collect(study.folder))
    assert [len(one.methods) for one in studies] == [1]
    assert [problem for problem in problems if "is a model to deploy" in problem] == problems != []


@pytest.mark.parametrize(
    ("name", "dim", "changed"),
    [
        ("0.5", 8, {"kept_share": 0.5, "max_steps": 9}),
        ("0", 8, {"kept_share": 0.0, "max_steps": 3, "selection_start": 0}),
        ("pca", 8, {"kept_share": 0.0, "head_start": "pca", "max_steps": 3, "selection_start": 0}),
        ("pca", 24, {"kept_share": 0.0, "head_start": "pca", "max_steps": 3, "selection_start": 0}),
    ],
)
def test_the_model_that_validation_chose_is_made(tmp_path, name, dim, changed, monkeypatch):
    """Of ten validation classes, one candidate is far ahead; a closed form has no more components than channels."""
    monkeypatch.setitem(network_names.CHANNELS, "resnet10", CHANNELS)
    study = TinyStudy(tmp_path)
    config = study.config("c2", "gap", **SHORT, interpolation="0,0.5", head_start="whitening", embedding_dim=dim)
    if dim > CHANNELS:
        config = dataclasses.replace(config, matryoshka="20")
    for fold in (0, 1):
        metrics, ahead = ({"P@1": 0.95, "MAP@R": value - 0.01 * fold} for value in (0.5, 0.9))
        path = study.finish(config, fold)
        result = read_json(path / "result.json")
        result |= {"validation": {"best": {"MAP@R": 0.5, "step": 9}}, "validation_classes": 5}
        before = {each: ahead if each == name else metrics for each in ("untrained", "pca")}
        result |= {"closed_form": {"pca": before["pca"]}, "validation_before": before}
        of_shares = {
            each: dict.fromkeys(("validation", "test"), ahead if each == name else metrics) for each in ("0", "0.5")
        }
        for file in ("result.json", "result.copy.json"):
            write_json(path / file, {**result, "interpolated": of_shares})
    found = read_study(study.runs.method_dir(config))
    final = final_configuration(found, None)
    assert {field: getattr(final, field) for field in changed} == changed
    assert final.interpolation is None
    written = train_final(found, study.dataset, final, Places(found.runs_dir))
    text = written.card.read_text()
    assert "Chosen on 10 validation classes in 2 folds: " in text
    assert ("No trained weights are kept." in text) == (changed["kept_share"] == 0)
    if name == "pca":
        embedder = load_embedder(written.path)
        features = [features_of(embedder, part.arrays) for part in (study.dataset.train, study.dataset.test)]
        mapped = principal_components(features[0], min(dim, CHANNELS))(features[1])
        expected = mapped / np.linalg.norm(mapped, axis=1, keepdims=True)
        np.testing.assert_allclose(embedder.embed(study.dataset.test.arrays), expected, atol=1e-4)
        assert re.search(rf"^final, .* {min(dim, CHANNELS)} ", comparison(found, written.path.parent), re.MULTILINE)


def test_other_data_are_refused(finished):
    study, _, folder = finished
    found = read_study(folder)
    fewer = dataclasses.replace(study.dataset, test=study.dataset.test.subset(np.arange(10)))
    with pytest.raises(InvalidInput, match="trained on other data"):
        train_final(found, fewer, final_configuration(found, None), Places(found.runs_dir))


def test_what_is_no_finished_study_is_refused(finished, tmp_path):
    study, config, folder = finished
    with pytest.raises(InvalidInput, match="Give the folder of a method, such as"):
        read_study(tmp_path)
    with pytest.raises(InvalidInput, match="--weights: received 'a.npz', expected none"):
        final_configuration(read_study(folder), "a.npz")
    other = TinyStudy(tmp_path)
    other.finish(config)
    with pytest.raises(InvalidInput, match="is not complete: fold 1 has not finished"):
        read_study(other.runs.method_dir(config))
    biased = other.config("c2", "gap", "conventional")
    other.finish(biased)
    with pytest.raises(InvalidInput, match="expected one of the fair protocol"):
        read_study(other.runs.method_dir(biased))


def test_an_argument_of_no_part_is_refused(finished, monkeypatch):
    monkeypatch.setattr(FinishedStudy, "final", Final(3, "so", {"nothing": 1}))
    with pytest.raises(InvalidInput, match="Invalid Final.arguments: received 'nothing'"):
        final_configuration(read_study(finished[2]), None)


def test_a_study_from_a_file_of_weights_needs_that_file(finished, tmp_path):
    _, _, folder = finished
    found = read_study(folder)
    file = tmp_path / "weights.npz"
    np.savez(file, a=np.zeros(1))
    from common.backbones.initial_weights import weights_file

    began = found._replace(config=dataclasses.replace(found.config, weights=weights_file(str(file)).digest))
    assert final_configuration(began, str(file)).weights == str(file)
    np.savez(file, a=np.ones(1))
    for weights in (None, str(file)):
        with pytest.raises(InvalidInput, match="expected the file that the folds began with"):
            final_configuration(began, weights)


CCP = {"projection_patience": 2, "proxies_per_class": 2, "pool_size": 3, "steps_per_evaluation": 3}
PROBLEM = {"covering_radius_before": None, "covering_radius_after": 1.0}


def of_ccp(tmp_path, *units, **overrides):
    """A study with CCP; of each fold the selected step, and start, end and outcome of its problems."""
    study = TinyStudy(tmp_path)
    settings = {**OVERRIDES, **SHORT, **CCP, "num_folds": 2, **overrides}
    config = resolve("glyphs", "c2", "gap", "thesis", "smoke", settings, "ccp", None)
    for fold, (step, *problems) in enumerate(units):
        path = study.finish(config, fold)
        select(path, step)
        result = read_json(path / "result.json")
        result["problems"] = [
            {**PROBLEM, "index": i, "start_step": start, "end_step": end, "steps": end - start, "outcome": outcome}
            for i, (start, end, outcome) in enumerate(problems)
        ]
        for name in ("result.json", "result.copy.json"):
            write_json(path / name, result)
    return study, config, study.runs.method_dir(config)


def test_problems_of_ccp_are_as_long_as_those_that_led_to_the_selected_weights(tmp_path):
    one = 18, (0, 12, "converged"), (12, 24, None)  # 6 useful steps of each
    other = 9, (0, 15, "converged"), (15, 24, None)  # 9 of the first
    _, config, folder = of_ccp(tmp_path, one, other)
    final = final_configuration(read_study(folder), None)
    chosen = final.ccp_start, final.ccp_problem_steps, final.ccp_max_problems, final.max_steps
    assert chosen == (0, 9, 2, 18)  # medians, up to whole validations and problems
    assert (final.ccp_continue_from, final.selection_start, final.protocol) == ("last", 15, "final")
    assert final.proxies_per_class == config.proxies_per_class


def test_a_start_after_the_in_batch_loss_is_kept_and_problems_that_went_back_are_not(tmp_path):
    waits = {"ccp_start_patience": 2, "ccp_goes_back": True}
    unit = 24, (12, 21, "went back"), (21, 27, "alternation stopped")
    _, _, folder = of_ccp(tmp_path, unit, unit, **waits)
    final = final_configuration(read_study(folder), None)
    chosen = final.ccp_start, final.ccp_problem_steps, final.ccp_max_problems, final.max_steps
    assert chosen == (6, 3, 1, 9)  # without the two validations that waited
    assert (final.ccp_start_patience, final.ccp_goes_back) == (None, False)


def test_ccp_whose_problems_did_not_help_is_refused(tmp_path):
    _, _, folder = of_ccp(tmp_path, (6,), (3,))
    with pytest.raises(InvalidInput, match="led to no selected weights"):
        final_configuration(read_study(folder), None)


def test_a_final_model_is_trained_with_ccp(tmp_path):
    unit = 6, (0, 9, "converged"), (9, 12, None)
    study, _, folder = of_ccp(tmp_path, unit, (12, *unit[1:]))
    found = read_study(folder)
    config = final_configuration(found, None)
    written = train_final(found, study.dataset, config, Places(found.runs_dir))
    result = read_json(written.path.parent / "result.json")
    lengths = [(problem["start_step"], problem["end_step"]) for problem in result["problems"]]
    assert lengths == [(0, 6), (6, 12)]
    assert result["validation"]["best"]["step"] == 12
    assert "2 problems of 6, medians" in written.card.read_text()
