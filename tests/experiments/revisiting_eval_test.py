import json

import numpy as np
import pytest

from common.diagnostics import evaluate_clustering
from common.errors import InvalidInput
from common.files import write_arrays, write_json
from experiments.protocols.conventional_report import RevisitingReport
from experiments.protocols.report import write_report
from experiments.recipes import resolve
from experiments.rows.run_folders import collect_method
from tests.experiments.written_results import finished_result
from tests.support.command_line import done_small_here

MODULE = "experiments.revisiting_eval"


@pytest.mark.parametrize(("dataset", "epochs", "steps"), [("cub200", 150, 52), ("cars196", 150, 71), ("sop", 100, 531)])
def test_the_recipe_is_the_dissertations(dataset, epochs, steps):
    config = resolve(dataset, "ms", "gap", "revisiting", "full", {}, protocol="conventional")
    assert (config.backbone, config.weights, config.frozen_batch_norm) == ("resnet50", "imagenet", True)
    assert (config.embedding_dim, config.normalization, config.image_size) == (128, "unit", 224)
    assert (config.batch_size, config.samples_per_class) == (112, 2)
    assert (config.learning_rate, config.beta_2, config.weight_decay) == (1e-5, 0.999, 4e-4)
    assert (config.max_steps, config.steps_per_evaluation) == (epochs * steps, steps)
    assert config.patience > epochs  # nothing ends it early
    assert config.plateau_patience == config.warm_up_epochs == config.warm_up_steps == 0
    assert (config.ms_alpha, config.ms_beta, config.ms_base) == (2.0, 40.0, 0.5)


def test_proxies_have_the_benchmarks_pace_and_scale():
    config = resolve("cub200", "pnca", "gap", "revisiting", "full", {}, protocol="held_out")
    assert (config.proxy_multiplier, config.temperature, config.samples_per_class) == (50.0, 1 / 18, 2)
    assert config.held_out_fraction == 0.1
    smoke = resolve("glyphs", "softtriple", "gap", "revisiting", "smoke", {}, protocol="conventional")
    assert (smoke.backbone, smoke.embedding_dim, smoke.plateau_patience, smoke.max_steps) == ("resnet10", 128, 0, 8)
    assert (smoke.centers_per_class, smoke.softtriple_scale, smoke.proxy_multiplier) == (2, 8.0, 1.0)
    with pytest.raises(InvalidInput, match="--recipe: received 'revised'"):
        resolve("glyphs", "pnca", "gap", "revised", "full", {})


METRICS = ("R@1", "R@2", "R@4", "NMI")  # at each epoch


def write_unit(folder, config, repeat, curves):
    """A finished unit with these values at three epochs, and four clusters as test embeddings."""
    rng = np.random.default_rng(repeat)
    path = folder / config.protocol / "cub200" / f"{config.name}-0123456789" / f"fold0-repeat{repeat}"
    labels = np.repeat(np.arange(4), 5)
    embeddings = rng.normal(size=(4, 3))[labels] + 0.7 * rng.normal(size=(20, 3))
    write_arrays(path / "test_embeddings.npz", {"queries": embeddings, "query_labels": labels})
    test = {"P@1": 0.4, "R@1": 0.4, "R@2": 0.5, "R@4": 0.6, "R@8": 0.7, "MAP@R": 0.1}
    best = {"validation": {"best": {"P@1": 0.6, "step": 10}}, "deviations": []}
    write_json(path / "result.json", {**finished_result(test, 0, repeat), **best})
    lines = [
        json.dumps({"step": 10 * epoch, "validation": {**dict(zip(METRICS, values)), "P@1": values[0]}})
        for epoch, values in enumerate(curves, start=1)
    ]
    (path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    return evaluate_clustering(embeddings, labels).normalized_mutual_information


@pytest.fixture
def report(tmp_path):
    """A study of two repeats on disk, and the NMI of the unbiased units' test embeddings."""
    configs = [
        resolve("cub200", "ms", "gap", "revisiting", "full", {}, protocol=protocol)
        for protocol in ("conventional", "held_out")
    ]
    first = [(0.60, 0.70, 0.80, 0.66), (0.64, 0.74, 0.82, 0.65), (0.63, 0.75, 0.81, 0.64)]
    second = [(0.62, 0.70, 0.80, 0.60), (0.60, 0.72, 0.84, 0.61), (0.58, 0.71, 0.83, 0.68)]
    for repeat, curves in enumerate((first, second)):
        write_unit(tmp_path, configs[0], repeat, curves)
    nmi = [write_unit(tmp_path, configs[1], repeat, first) for repeat in range(2)]
    folders = [tmp_path / config.protocol / "cub200" / f"{config.name}-0123456789" for config in configs]
    return RevisitingReport(*configs, *map(collect_method, folders), repeats=2), nmi


def test_each_metric_takes_its_own_best_epoch_and_the_unbiased_figure_stands_beside(report, tmp_path):
    method, nmi = report
    best, unrecorded, last, unbiased, optimism = method.rows()
    assert {place: cell.mean for place, cell in unrecorded.cells.items()} == {("128-D", "R@8"): 0.7}
    cells = {metric: best.cells["128-D", metric] for metric in METRICS}
    means = {metric: cell.mean for metric, cell in cells.items()}
    assert means == pytest.approx({"R@1": 0.63, "R@2": 0.735, "R@4": 0.83, "NMI": 0.67})
    assert cells["R@1"].std == pytest.approx(np.std([0.64, 0.62], ddof=1))
    assert (cells["R@1"].published.value, cells["NMI"].published.value) == (62.80, 68.55)
    assert "repeats is 2, the table's is 5" in cells["R@1"].verdict.reason
    assert "mines the hard pairs" in cells["R@1"].verdict.reason
    assert last.cells["128-D", "NMI"].mean == pytest.approx(0.66)
    assert unbiased.cells["128-D", "R@4"].mean == pytest.approx(0.6)
    assert unbiased.cells["128-D", "NMI"].mean == pytest.approx(np.mean(nmi))
    assert optimism.cells["128-D", "R@1"].mean == pytest.approx(0.63 - 0.4)
    text = write_report([method], tmp_path / "report", "a title")
    assert "a title" in text
    details = (tmp_path / "report" / "revisiting.md").read_text()
    assert "the maximum over all epochs on the test set" in " ".join(details.split())
    assert "+23.00" in text  # the optimism is a difference
    assert "maximum over all epochs" in (tmp_path / "report" / "revisiting.tex").read_text()
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "revisiting.md",
        "revisiting.csv",
        "revisiting.tex",
        "validation_curves.png",
    }


def test_runs_that_recorded_no_deeper_recall_have_that_of_the_best_epoch_beside_the_printed_one(tmp_path):
    config = resolve("sop", "margin+pads", "gap", "revisiting", "full", {}, protocol="conventional")
    for repeat in range(5):
        write_unit(tmp_path, config, repeat, [(0.6, 0.7, 0.8, 0.9)])
    (folder,) = (tmp_path / "conventional").glob("*/*")
    _, epoch, last = RevisitingReport(config, config, collect_method(folder), None, repeats=5).rows()
    cells = {metric: cell for (_, metric), cell in epoch.cells.items()}
    assert [*cells] == ["R@10", "R@100", "R@1000"]
    assert [cell.mean for cell in cells.values()] == pytest.approx([0.98, 1, 1])  # of 20 test images
    assert (cells["R@10"].published.value, cells["R@100"].published.value, cells["R@1000"].published) == (
        89.0,
        95.4,
        None,
    )
    assert "of the epoch of the best R@1" in cells["R@10"].verdict.reason
    assert {metric for _, metric in last.cells} == {"R@1", "NMI"}


def test_what_is_missing_is_named_and_the_rest_is_printed(report):
    method, _ = report
    half = RevisitingReport(method.config, method.held_out_config, method.runs, method.held_out_runs, repeats=3)
    assert half.rows() == []
    assert any("repeat 2" in line for line in half.partial_lines())


@pytest.mark.slow
def test_glyphs_are_evaluated_with_nmi_at_every_epoch(tmp_path, glyph_cache):
    arguments = [f"--runs_dir={tmp_path}", f"--cache_dir={glyph_cache}", "--budget=smoke", "--repeats=1"]
    finished = done_small_here(MODULE, *arguments)
    phrases = ('"Revisiting" protocol on glyphs', "pnca+gap, best test epoch of each metric")
    for phrase in (*phrases, "last epoch", "unbiased", "optimism", "128-D NMI"):
        assert phrase in finished.stdout
    (path,) = tmp_path.glob("conventional/glyphs/pnca+gap-*/fold0-repeat0/metrics.jsonl")
    records = [json.loads(line)["validation"] for line in path.read_text().splitlines()]
    assert len(records) == 2
    assert all(0 < record["NMI"] < 1 for record in records)
    stored = json.loads((path.parent / "result.json").read_text())["diagnostics"]
    assert {"rho", "pi_ratio", "uniformity"} <= stored.keys()
