import dataclasses
import logging

import numpy as np
import pytest
from PIL import Image

from common import data
from common.data.image_formats import Reading
from common.errors import InvalidInput
from common.records import RunDirectory
from common.retrieval import evaluate_retrieval
from experiments.recipes import resolve
from experiments.rows.run_folders import collect
from experiments.runs.trained_model import DataFolder, data_of_run, load_trained_model, tell_of_other_data
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from experiments.site.groups import read_studies
from tests.experiments.patterned_images import write_photos
from tests.experiments.written_results import finished_result
from tests.support.colour_profiles import DISPLAY_P3

CONFIG = resolve(
    "folder",
    "pnca",
    "gap",
    "thesis",
    "smoke",
    {"backbone": "resnet10", "weights": "none", "image_size": 32, "embedding_dim": 8, "num_folds": 2},
)
OLD = "0123456789abcdef"  # a fingerprint of file names


class Place:
    """Data folders `a` and `b` with equal names, a cache and a folder for runs."""

    def __init__(self, root):
        counts = {f"c{number}": 3 for number in range(8)}
        self.a, self.b = (str(write_photos(root / name, counts, seed, "bmp")) for seed, name in enumerate("ab"))
        self.cache, self.runs = str(root / "cache"), str(root / "runs")

    def load(self, data_dir):
        return build.load_dataset("folder", data_dir, self.cache, CONFIG.seed)

    def unit_runs(self, data_dir):
        return UnitRuns(self.load(data_dir), Places(self.runs, self.cache))

    def finish(self, data_dir, dataset=None):
        """The run directory of fold 0, with results but without training."""
        runs = UnitRuns(dataset or self.load(data_dir), Places(self.runs, self.cache))
        run = RunDirectory(runs.unit_dir(CONFIG, 0, 0), {**CONFIG.identity(runs.fingerprint), "fold": 0, "repeat": 0})
        labels = runs.dataset.test.labels
        embeddings = np.random.default_rng(0).normal(size=(len(labels), 8))
        metrics = evaluate_retrieval(embeddings, labels).as_dict()
        result = finished_result(metrics, config_hash=CONFIG.hash(runs.fingerprint))
        run.write_result(result, {"queries": embeddings, "query_labels": labels}, [np.zeros(3)])
        return run.path


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def rewrite_one_image(folder):
    """Other pixels in a file of the same name and size."""
    path = f"{folder}/c5/1.bmp"
    Image.fromarray(255 - np.asarray(Image.open(path))).save(path)


def test_no_run_is_shared(place):
    assert place.unit_runs(place.a).unit_dir(CONFIG, 0, 0) == place.unit_runs(place.a).unit_dir(CONFIG, 0, 0)
    assert place.unit_runs(place.a).method_dir(CONFIG) != place.unit_runs(place.b).method_dir(CONFIG)
    assert place.unit_runs(place.a).report_dir([CONFIG]) != place.unit_runs(place.b).report_dir([CONFIG])


def test_one_image_changed_in_place_is_another_run(place):
    before = place.unit_runs(place.a).unit_dir(CONFIG, 0, 0)
    rewrite_one_image(place.a)
    assert place.unit_runs(place.a).unit_dir(CONFIG, 0, 0) != before


def test_no_refinement_is_of_other_data(place):
    path = place.finish(place.a)
    for data_dir in (place.b, place.a):
        if data_dir == place.a:
            rewrite_one_image(place.a)
        with pytest.raises(InvalidInput, match="was trained on other data than folder now holds. Check --data_dir"):
            load_trained_model(path, data_dir=data_dir, cache_dir=place.cache)


def test_no_page_has_other_pictures(place):
    place.finish(place.a)
    row = collect(place.runs)[0][0]
    assert DataFolder(place.a, place.cache).dataset_of(row).train.paths[0].startswith(place.a)
    with pytest.raises(InvalidInput, match="was trained on other data"):
        DataFolder(place.b, place.cache).dataset_of(row)


def test_no_table_has_both(place):
    paths = [place.finish(data_dir) for data_dir in (place.a, place.b)]
    assert paths[0] != paths[1]
    studies, problems = read_studies(collect(place.runs))
    assert [len(study.methods) for study in studies] == [1, 1]
    assert problems == []


def test_a_run_of_an_old_version_is_told_apart(place):
    dataset = place.load(place.a)
    assert data_of_run(dataset, place.cache, build.data_fingerprint(dataset, place.cache), "runs/x") is dataset
    with pytest.raises(InvalidInput, match="runs/x is of a version.*by their file names alone.*Run it again"):
        data_of_run(dataset, place.cache, OLD, "runs/x")
    with pytest.raises(InvalidInput, match="runs/x was trained on other data than folder now holds"):
        data_of_run(dataset, place.cache, "contents-0123456789abcdef", "runs/x")


@pytest.mark.parametrize("reading", [Reading.STORED, Reading.UPRIGHT])
def test_a_run_of_before_keeps_its_reading_of_photos(place, reading):
    """It is shown and exported so; a new one begins beside it."""
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3)).astype(np.uint8))
    image.save(f"{place.a}/c1/3.png", exif=exif, icc_profile=DISPLAY_P3)
    loaded = place.load(place.a)
    parts = {name: dataclasses.replace(part, reading=reading) for name, part in data.parts_of(loaded)}
    place.finish(place.a, dataclasses.replace(loaded, **parts))
    row = collect(place.runs)[0][0]
    trained_on = row["data"]
    assert build.data_fingerprint(loaded, place.cache) != trained_on
    found = data_of_run(loaded, place.cache, trained_on, "runs/x")
    assert {found.train.reading, found.test.reading} == {reading}
    assert DataFolder(place.a, place.cache).dataset_of(row).test.reading is reading
    now = build.data_fingerprint(loaded, place.cache)
    assert data_of_run(loaded, place.cache, now, "runs/x").train.reading is Reading.SHOWN
    with pytest.raises(InvalidInput, match="was trained on other data"):
        data_of_run(loaded, place.cache, "contents-0123456789abcdef", "runs/x")


def test_a_run_that_begins_beside_one_of_other_data_says_so(place, caplog):
    old = place.finish(place.a)
    new = place.unit_runs(place.b)
    identity = {**CONFIG.identity(new.fingerprint), "fold": 0, "repeat": 0}
    with caplog.at_level(logging.WARNING):
        tell_of_other_data(new.unit_dir(CONFIG, 0, 0), {**identity, "embedding_dim": 16})
        tell_of_other_data(old, identity)
        assert caplog.records == []
        tell_of_other_data(new.unit_dir(CONFIG, 0, 0), identity)
    assert [str(old) in record.getMessage() for record in caplog.records] == [True]
    assert "begins again" in caplog.text
