import csv

from experiments import reports
from experiments.plans.study import StudyOptions
from experiments.studies.bars import poolings


def test_differences_are_of_the_same_runs_and_the_best_of_the_first_loss_is_drawn_first(
    drawn_cells, tmp_path, monkeypatch
):
    drawn, values = {}, {"gap": 0.4, "gmp": 0.7, "gsp": 0.6}

    def value_of(cell):
        return None if cell.config.pooling == "gsp" and cell.repeat else values.get(cell.config.pooling)

    monkeypatch.setattr(reports, "interval_bars", lambda groups, path, title: drawn.update(groups))
    study = poolings(StudyOptions("glyphs", "demo", losses=("c2", "pnca"), repeats=2))
    text = study.render(drawn_cells(value_of), tmp_path, "figure_5_12")
    lines = list(csv.DictReader((tmp_path / "figure_5_12.csv").read_text().splitlines()))
    differences = {line["method"]: line for line in lines if line["size"] == "minus gap"}
    assert set(differences) == {"c2+gmp", "pnca+gmp"}
    assert f"{float(differences['c2+gmp']['mean']):+.2f}" in text
    assert float(differences["c2+gmp"]["detectable"]) > 0
    assert {loss: list(of) for loss, of in drawn.items()} == dict.fromkeys(("c2", "pnca"), ["gmp", "gsp", "gap"])
