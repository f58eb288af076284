import pathlib
from types import SimpleNamespace

import numpy as np

from experiments.protocols.report_files import (
    draw_sampling,
    mean_sampling,
    print_report,
    write_parts,
    write_recall,
)
from experiments.published.values import published_value
from experiments.rows.run_folders import run_row


def test_details_are_the_markdown_files_above_the_short_text(tmp_path, capsys):
    for name in ("table_5.md", "table_5_recall.md", "other.md", "table_5.csv"):
        (tmp_path / name).write_text(f"content of {name}\n")
    print_report("short", tmp_path, details=False)
    assert capsys.readouterr().out == "short\n"
    print_report("short", tmp_path, True, "table_5*.md")
    assert capsys.readouterr().out == "content of table_5.md\n\ncontent of table_5_recall.md\n\nshort\n"


def unit(folder, value=None, decisions=None):
    folder.mkdir()
    names = {"concatenated": 8, "disc": 4, "shared": 4}
    features = {
        name: {"dim": dim, "P@1": value, "MAP@R": value / 2, "rho": 1.5} for name, dim in names.items() if value
    }
    if decisions is not None:
        edges = np.linspace(0.1, 1.4, 3)
        arrays = {"steps": 30 * np.arange(1, decisions + 1), "probabilities": np.full((decisions, 2), 0.5)}
        np.savez(folder / "sampling.npz", edges=edges, **arrays)
    return run_row(folder, 0, 0, {}, {"steps": 1, **({"features": features} if value else {})})


def finished(value):
    return run_row(pathlib.Path(), 0, 0, {}, {"steps": 1, "test": {f"R@{k}": value / k for k in (1, 10, 20, 30)}})


def test_recalls_are_means_beside_the_printed_ones_and_damaged_runs_are_named(tmp_path):
    lost = run_row(tmp_path / "fold0-repeat2", 0, 2, {}, {"steps": 1, "test": {"R@1": 0.0}})
    printed = {
        "R@1": published_value("5.1", "inshop", "C2", 128, "P@1"),
        "R@20": SimpleNamespace(table="9", method="C2", value=40.5),
    }
    runs = {"c2+gap": [finished(0.5), finished(0.7), lost], "ms+gap": [finished(0.3)], "pnca+gap": []}
    text = write_recall(runs, "inshop", tmp_path, published={"c2+gap": printed.get})
    assert (tmp_path / "report_recall.csv").read_text().splitlines() == [
        "method,runs,R@1,R@10,R@20,R@30",
        "c2+gap,2,60.00,6.00,3.00,2.00",
        '"  printed: table 5.1, C2",,{:.2f},,40.50,'.format(printed["R@1"].value),
        "ms+gap,1,30.00,3.00,1.50,1.00",
    ]
    said = f"c2+gap: a run is left out. {tmp_path / 'fold0-repeat2' / 'test_embeddings.npz'} is missing."
    assert text.splitlines()[-2].startswith(f"warning: {said}")
    assert text.splitlines()[-1] == f"R@1 to R@30: {tmp_path / 'report_recall.md'}"
    assert ["method", "runs", "R@1", "R@10", "R@20", "R@30"] in [line.split() for line in text.splitlines()]
    assert max(map(len, text.splitlines()[:-2])) <= 100
    assert said in (tmp_path / "report_recall.md").read_text()
    assert write_recall({"c2+gap": []}, "inshop", tmp_path) == ""


def test_figures_of_features_are_means_over_runs_in_the_order_of_the_embedding(tmp_path):
    units = [unit(tmp_path / "0", 0.5), unit(tmp_path / "1", 0.75)]
    text = write_parts({"margin+shared+gap": units, "margin+gap": [unit(tmp_path / "2")]}, tmp_path)
    rows = (tmp_path / "features.csv").read_text().splitlines()
    assert rows[0] == "feature,runs,dim,P@1,MAP@R,rho,pi_intra,pi_inter"
    assert rows[1:] == [
        f'"margin+shared+gap, {name}",2,{dim},62.50,31.25,1.500,nan,nan'
        for name, dim in (("disc", 4), ("shared", 4), ("concatenated", 8))
    ]
    assert text == f"Features, each on its own: {tmp_path / 'features.md'}"
    assert not (tmp_path / "sampling.png").exists()


def test_groups_are_told_with_the_classes_of_their_images(tmp_path):
    units = [unit(tmp_path / str(number), 0.5) for number in range(2)]
    for number, each in enumerate(units):
        features = each["extras"]["features"]
        features["groups"] = {**features.pop("shared"), "groups": 30, "classes_per_group": 4.0 + number}
    write_parts({"margin+groups+gap": units, "margin+gap": [unit(tmp_path / "2")]}, tmp_path)
    written = tmp_path / "features.md"
    assert "margin+groups+gap: images of 30 groups, each of 4.5 classes (means)." in written.read_text()
    write_parts({"margin+shared+gap": [unit(tmp_path / "3", 0.5)]}, tmp_path)
    assert "groups" not in written.read_text()


def test_sampling_is_drawn_of_the_runs_that_decided(tmp_path):
    units = [unit(tmp_path / "0", decisions=2), unit(tmp_path / "1", decisions=0)]
    text = write_parts({"margin+pads+gap": units}, tmp_path)
    assert text == f"Sampling distribution over steps: {tmp_path / 'sampling.png'}"


def test_methods_with_neither_have_no_such_files(tmp_path):
    assert write_parts({"margin+gap": [unit(tmp_path / "0")]}, tmp_path) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["0"]


def test_a_run_that_stopped_early_stays_in_the_mean_of_sampling(tmp_path):
    def record(count, first):
        shares = np.array([[first, 1 - first, 0.0]] * count)
        return {"steps": 30 * np.arange(1, count + 1), "edges": np.linspace(0.1, 1.4, 4), "probabilities": shares}

    records = [record(1, 0.2), record(3, 0.6)]
    mean = mean_sampling(records)
    np.testing.assert_allclose(mean["probabilities"], [[0.4, 0.6, 0.0]] * 3)
    np.testing.assert_array_equal(mean["steps"], [30, 60, 90])
    draw_sampling(dict(zip("ab", records)), tmp_path / "sampling.png")
    assert (tmp_path / "sampling.png").read_bytes().startswith(b"\x89PNG")
