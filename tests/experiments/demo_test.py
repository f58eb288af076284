import dataclasses
import re

import numpy as np
import pytest
from PIL import Image

from experiments.parts.datasets import DATASETS
from experiments.rows.store import RECORDED, StudyRows
from experiments.settings import build
from experiments.studies.demo import SPREAD, fair_queries, found_by, stratified
from tests.experiments.patterned_images import noisy_pictures
from tests.experiments.tiny_network import tiny_network
from tests.support.command_line import ONE_EVALUATION, ROOT, run_small_here


def few_emoji(data_dir=None, *, cache_dir, seed=0):
    names = [f"U+{place:04X} RUNNER <{place}>, U+FE0F VARIATION SELECTOR-16" for place in range(28)]
    return noisy_pictures("emoji", 16, 12, noise=60, copies=6, shape=(32, 32, 3), class_names=names)


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS, "emoji", dataclasses.replace(DATASETS["emoji"], constructor=few_emoji))
    monkeypatch.setitem(build.BACKBONES, "efficientnet_lite0", tiny_network)
    arguments = [f"--runs_dir={tmp_path}/runs", f"--cache_dir={tmp_path}/cache", "--budget=smoke", *ONE_EVALUATION]
    arguments += ["--weights=none", "--image_size=32"]
    return lambda *others: run_small_here("experiments.demo", *arguments, *others)


@pytest.mark.slow
def test_the_demo_ends_with_a_short_table_a_page_and_a_picture(demo, tmp_path):
    first = demo()
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= 100
    start = next(place for place, line in enumerate(lines) if line.startswith("Search among emoji"))
    assert len(lines) <= 30
    table = lines[start : start + 10]
    rows = ["untrained", "untrained + whitening", "ms", "ms + memory", "ms + CCP"]
    assert [line.split("  ")[0] for line in table[4:9]] == rows
    assert table[9] == "-" * len(table[9])
    assert [len(re.findall(r"\[-?\d", line)) for line in table[4:9]] == [0, 0, 0, 1, 1]
    assert "*" not in "".join(table), "one run has no star"
    comparison = r"finds more than ms for (\d+) % of all 72 drawings, fewer for (\d+) %, as many for (\d+) %"
    shares = re.search(comparison, first.stdout)
    assert 99 <= sum(map(int, shares.groups())) <= 101
    assert lines[-1].endswith("-m photo_search.search index --images=YOUR_PHOTOS --index=photo_index")
    (page,) = tmp_path.rglob("index.html")
    text = page.read_text()
    assert "runner &lt;" in text
    assert "SELECTOR" not in text.upper().split("</STYLE>")[-1]
    assert all((page.parent / address).exists() for address in re.findall(r'src="([^"]+)"', text))
    assert len(re.findall('class="search', text)) == 12
    with Image.open(page.parent / "found.png") as image:
        assert image.width > 800
    again = demo()
    assert (again.returncode, again.stdout) == (0, first.stdout)


def test_the_stated_spread_is_that_of_the_recorded_runs():
    figures = {}
    for folder in (ROOT / RECORDED).glob("demo_*"):
        for row in StudyRows(folder).rows:
            figures[folder.name, row["repeat"], row["label"]] = 100 * row["test"]["MAP@R"]
    runs = {key[:2] for key in figures}
    assert len(runs) == 20
    for method, label in {"ms+xbm+gap": "ms + memory", "ms+ccp+gap": "ms + CCP"}.items():
        gaps = [figures[(*run, method)] - figures[(*run, "ms+gap")] for run in runs]
        assert SPREAD[label] == round(np.std(gaps, ddof=1), 1)


def test_a_query_does_not_find_itself():
    embeddings = np.array([[1, 0], [1, 0], [0.9, 0.1], [0, 1]], np.float32)
    found = found_by("net", embeddings, np.array([0, 0, 1, 0]), 2)
    np.testing.assert_array_equal(found.places[:2], [[1, 2], [0, 2]])
    np.testing.assert_array_equal(found.is_right[:2], [[True, False], [True, False]])
    np.testing.assert_array_equal(found.of(np.array([1])).num_right, [1])


def test_queries_show_gains_and_losses_in_the_shares_of_all_drawings():
    change = np.repeat([-2, 0, 1], [250, 500, 250])[np.random.default_rng(0).permutation(1000)]
    np.testing.assert_array_equal(change[stratified(change, 12)], [1] * 3 + [0] * 6 + [-2] * 3)
    assert len(set(stratified(change, 12))) == 12


def test_no_query_is_pale_copied_or_one_of_twins():
    images = np.random.default_rng(0).integers(0, 256, [6, 16, 16, 3]).astype(np.uint8)
    images[0] = 250  # pale
    images[2] = images[1]  # a copy with another name
    names = ["FOGGY", "OX", "WATER BUFFALO", "U+1F93D WATER POLO, U+200D ZERO WIDTH JOINER, U+2642 MALE SIGN"]
    names += ["U+1F93D WATER POLO, U+200D ZERO WIDTH JOINER, U+2640 FEMALE SIGN", "U+1F3C3 RUNNER"]
    assert fair_queries(images, names).tolist() == [False, False, False, False, False, True]
    assert fair_queries(images[[5, 5]], ["RUNNER", "RUNNER"]).all(), "its own other design is no copy"
