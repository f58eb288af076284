import json

import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import evaluate_retrieval
from experiments.protocols.conventional_report import ConventionalReport
from experiments.protocols.fair import Protocol
from experiments.recipes import resolve
from experiments.runs.trained_model import load_trained_model
from experiments.settings.places import Places
from experiments.settings.splits import split_of
from tests.experiments.patterned_images import noisy_pictures

OVERRIDES = {
    "embedding_dim": 8,
    "image_size": 16,
    "classes_per_batch": 4,
    "samples_per_class": 2,
    "steps_per_evaluation": 2,
    "max_steps": 16,
    "patience": 100,
    "plateau_patience": 1,
    "projection_patience": 1,
    "ccp_start": 0,
    "pool_size": 2,
    "proxies_per_class": 1,
}


pytestmark = pytest.mark.usefixtures("tiny_network", "functions_run_eagerly")


@pytest.fixture(scope="module")
def dataset():
    """Ten training classes and five test classes of four noisy images; the test set has a gallery."""
    return noisy_pictures("glyphs", 10, 5, noise=90, copies=4, gallery_copies=3, deviations=("noise",))


@pytest.fixture(scope="module")
def finished(tiny_network, functions_run_eagerly, dataset, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    protocol = protocol_of(dataset, folder)
    protocol.run(checkpoint_seconds=0)
    return folder, protocol


def protocol_of(dataset, folder, held_out_fraction=0.3):
    names = ("glyphs", "c2", "gap+gmp", "thesis", "smoke")
    config = resolve(*names, OVERRIDES, "ccp", "conventional")
    held_out = resolve(*names, {**OVERRIDES, "held_out_fraction": held_out_fraction}, "ccp", "held_out")
    return Protocol(ConventionalReport, dataset, [(config, held_out)], Places(str(folder)), repeats=1)


def unit(folder, protocol):
    (path,) = folder.glob(f"{protocol}/glyphs/c2+ccp+gap+gmp-*/fold0-repeat0")
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return path, json.loads((path / "result.json").read_text()), records


@pytest.mark.slow
def test_the_test_set_decides_in_the_conventional_unit(finished):
    path, result, records = unit(finished[0], "conventional")
    best = result["validation"]["best"]
    assert best["P@1"] == pytest.approx(max(record["validation"]["P@1"] for record in records))
    assert result["test"]["P@1"] == pytest.approx(best["P@1"])
    chosen = next(record["validation"] for record in records if record["step"] == best["step"])
    assert chosen["MAP@R"] == pytest.approx(result["test"]["MAP@R"])
    with np.load(path / "test_embeddings.npz") as arrays:
        assert len(arrays["gallery"]) == 15


@pytest.mark.slow
def test_held_out_training_classes_decide_in_the_unbiased_unit(finished, dataset):
    path, result, _ = unit(finished[0], "held_out")
    trained = load_trained_model(path, dataset=dataset)
    split = split_of(dataset, trained.config, 0, 0)
    assert len(np.unique(split.queries.labels)) == 3
    embeddings = trained.model.embed(trained.inputs(split.queries))
    recomputed = evaluate_retrieval(embeddings, split.queries.labels)
    assert result["validation"]["best"]["P@1"] == pytest.approx(recomputed.precision_at_1)


@pytest.mark.slow
def test_the_monitored_metric_lowers_the_learning_rate_and_ends_projection_problems(finished):
    for protocol in ("conventional", "held_out"):
        _, result, records = unit(finished[0], protocol)
        values, rates = ([record["validation"]["P@1"] for record in records], [r["learning_rate"] for r in records])
        waited, cooling, best, expected, rate = 0, 0, -1.0, [], rates[0]
        for value in values:  # the plateau rule by hand: patience 1, cooldown 2, an improvement exceeds 1e-3
            expected.append(rate)
            cooling = max(0, cooling - 1)
            waited = 0 if value > best + 1e-3 else waited + (cooling == 0)
            best = max(best, value) if value > best + 1e-3 else best
            if waited >= 1:
                rate, waited, cooling = rate / 2, 0, 2
        assert rates == pytest.approx(expected)
        assert rates[-1] < rates[0]
        problems = result["problems"]
        assert len(problems) > 1
        by_step = {record["step"]: record["validation"]["P@1"] for record in records}
        for problem in problems:
            seen = [by_step[step] for step in by_step if problem["start_step"] < step <= problem["end_step"]]
            if seen:
                assert problem["best"] == pytest.approx(max(seen), abs=1e-5)


@pytest.mark.slow
def test_the_report_names_the_optimism_and_why_nothing_is_comparable(finished):
    folder, protocol = finished
    _, biased, _ = unit(folder, "conventional")
    _, unbiased, _ = unit(folder, "held_out")
    text = protocol.report(protocol.methods())
    for label in ("best of 1", "mean of 1", "unbiased, mean of 1", "optimism", "untrained backbone"):
        assert label in text
    optimism = 100 * (biased["test"]["P@1"] - unbiased["test"]["P@1"])
    (report,) = folder.rglob("report.md")
    assert text.endswith(f"Details (--details prints them): {report}")
    details = report.read_text()
    assert f"optimism of the protocol {optimism:+.2f} points of P@1" in details
    assert "no published figure; data set: noise" in details
    (picture,) = folder.rglob("validation_curves.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_result_that_carries_another_hash_is_left_out(finished, dataset):
    folder, protocol = finished
    path, result, _ = unit(folder, "held_out")
    original = (path / "result.json").read_text()
    (path / "result.json").write_text(json.dumps({**result, "config_hash": "0123456789"}))
    text = (again := protocol_of(dataset, folder)).report(again.methods())
    (path / "result.json").write_text(original)
    assert "is left out: its configuration hash is 0123456789" in text
    assert "missing stops on held-out classes, repeat 0" in text
    assert "optimism of" not in text


def test_bad_requests_are_refused_before_anything_is_trained(dataset, tmp_path):
    with pytest.raises(InvalidInput, match="two or more of the 10 training classes"):
        protocol_of(dataset, tmp_path, held_out_fraction=0.05).run()
    with pytest.raises(InvalidInput, match="--repeat: received 1, expected a number from 0 to 0"):
        protocol_of(dataset, tmp_path).run(repeat=1)
    assert list(tmp_path.rglob("config.json")) == []


def test_every_method_is_trained_under_both_monitors(dataset, tmp_path, monkeypatch):
    settings = {
        "conventional": {"classes_per_batch": 4},
        "held_out": {"classes_per_batch": 4, "held_out_fraction": 0.3},
    }
    configs = [
        [resolve("glyphs", "c2", pooling, "thesis", "smoke", given, protocol=name) for pooling in ("gap", "gmp")]
        for name, given in settings.items()
    ]
    protocol = Protocol(ConventionalReport, dataset, [*zip(*configs)], Places(str(tmp_path)), repeats=2)
    trained = []
    monkeypatch.setattr(
        protocol.runs, "train", lambda config, *place: trained.append((config.pooling, config.protocol, *place[:2]))
    )
    protocol.run(repeat=1)
    assert sorted(trained) == [(pooling, name, 0, 1) for pooling in ("gap", "gmp") for name in settings]
