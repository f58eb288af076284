"""Run folders, rows, models and an index of commit 6212cf6a are read, resumed and used (`write_old_files.py`)."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from common.deployment import load_embedder
from experiments.rows.store import StudyRows
from photo_search.index import EmbeddingIndex
from tests.nets.write_old_files import RUNS, STOPPED
from tests.support.command_line import done_here

OLD = pathlib.Path(__file__).parent / "old"


@pytest.fixture
def old(tmp_path):
    """A copy that may be written."""
    return pathlib.Path(shutil.copytree(OLD, tmp_path / "old"))


def finished_runs(folder):
    return {path.parent: json.loads(path.read_text()) for path in sorted(folder.rglob("result.json"))}


def lost(before, now):
    """The keys of nested JSON whose values are others now; new ones may have come."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [f"{key}/{more}" for key in before for more in lost(before[key], now.get(key))]
    return [] if before == now else [""]


def test_the_same_command_finds_runs_finished_and_reports_their_means(old):
    kept = ("weights.npz", "test_embeddings.npz", "result.json", "config.json", "metrics.jsonl", "model.keras")
    before = {path: path.read_bytes() for path in (old / "runs").rglob("*") if path.name in kept}
    rows = {path: json.loads(path.read_text())["row"] for path in (old / "runs").rglob("row.json")}
    shown = done_here("experiments.fair_eval", *RUNS, f"--runs_dir={old / 'runs'}").stdout
    assert {path: path.read_bytes() for path in before} == before  # nothing is trained again
    assert [lost(row, json.loads(path.read_text())["row"]) for path, row in rows.items()] == [[]] * 4
    for method in ("c2+gap", "ms+ccp+gsp"):
        results = [
            result for path, result in finished_runs(old / "runs").items() if path.parent.name.startswith(method)
        ]
        assert len(results) == 2
        means = [f"{50 * sum(result['test'][name] for result in results):.2f}" for name in ("P@1", "MAP@R")]
        assert any(line.split()[:3] == [method, *means] for line in shown.splitlines()), (means, shown)


def test_runs_are_recorded_as_they_were(old):
    done_here("experiments.record", f"--runs={old / 'runs'}", f"--study={old / 'again'}")
    before, again = StudyRows(old / "study"), StudyRows(old / "again")
    assert len(before.rows) == 6  # four runs, and the concatenated models of two methods
    assert {*map(str, map(lost, map(dict, before.rows), map(dict, again.rows)))} == {
        "['command/']",
        "[]",
    }  # of runs and collections
    for row, other in zip(before.rows, again.rows, strict=True):
        assert {*row.sums} == {"MAP@R", "P@1"}
        np.testing.assert_array_equal(row.counts, other.counts)
        for name, sums in row.sums.items():
            np.testing.assert_array_equal(sums, other.sums[name])


def test_a_stopped_run_goes_on_from_its_checkpoint(old):
    (lines,) = [path.read_text() for path in (old / "stopped").rglob("metrics.jsonl")]
    done_here("experiments.fair_eval", *STOPPED, f"--runs_dir={old / 'stopped'}")
    (path,) = finished_runs(old / "stopped")
    with np.load(next((OLD / "stopped").rglob("checkpoint.npz"))) as checkpoint:
        assert checkpoint.files  # it was stopped, not finished
    kept = (path / "metrics.jsonl").read_text()
    assert kept.startswith(lines.splitlines()[0])  # with the seconds of that time
    assert json.loads(kept.splitlines()[-1])["step"] > json.loads(lines.splitlines()[-1])["step"]


@pytest.mark.parametrize("name", ["memory", "proxies"])
@pytest.mark.default_stack
def test_a_metric_model_is_loaded_and_trains_on(name, old):
    model = tf.keras.models.load_model(old / "models" / f"{name}.keras")
    with np.load(old / "models" / f"{name}.npz") as arrays:
        images, labels, expected = (arrays[key] for key in ("images", "labels", "embeddings"))
    np.testing.assert_allclose(model.predict(images, verbose=0), expected, atol=1e-5)
    steps = int(model.optimizer.iterations)
    history = model.fit(images, labels, batch_size=8, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert int(model.optimizer.iterations) == steps + 2 > 2


@pytest.mark.default_stack
def test_exported_models_embed_as_they_did(old):
    with np.load(old / "search" / "embeddings.npz") as arrays:
        paths, expected = [str(old / "search" / path) for path in arrays["paths"]], arrays["embeddings"]
    found = load_embedder(old / "search" / "embedder.keras").embed(paths)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for path, result in finished_runs(old / "runs").items():
        embedder = load_embedder(path / "model.keras")
        assert embedder.embed(np.zeros((1, 50), np.int32)).shape == (1, 2), result


def test_an_index_is_searched_and_follows_its_photos(old):
    folder = old / "search"
    words = ("--index=index", "--images=photos", "--root=.")
    shown = done_here("photo_search.search", "neighbours", "--index=index", "--images=photos/jay", "--k=1", cwd=folder)
    with np.load(folder / "embeddings.npz") as arrays:
        names, similarities = arrays["paths"][:5].tolist(), (arrays["embeddings"] @ arrays["embeddings"].T)[:3, :5]
    nearest = (similarities - 2 * np.eye(3, 5)).argmax(1)  # the photos of jays come first
    lines = [line.split() for line in shown.stdout.splitlines()[1:]]
    assert [(query, line[-1]) for (query,), line in zip(lines[::2], lines[1::2])] == [
        (names[place], names[near]) for place, near in enumerate(nearest)
    ]
    (folder / "photos/jay/2.png").unlink()
    done_here("photo_search.search", "sync", *words, cwd=folder)
    index = EmbeddingIndex.load(folder / "index")
    names = sorted(str(pathlib.Path(name).relative_to(folder)) for name in index.ids)
    assert names == [f"photos/{name}.png" for name in ("jay/0", "jay/4", "kea/1", "kea/3", "kea/5")]
