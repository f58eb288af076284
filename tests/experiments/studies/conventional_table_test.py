import csv

import pytest

from common.errors import InvalidInput
from experiments.plans.study import StudyOptions
from experiments.plans.study_runs import NothingFinished
from experiments.studies.tables import DEFAULTS, TABLES


def options(dataset="cub200", budget="full", **others):
    return StudyOptions(dataset=dataset, budget=budget, **{"repeats": 3, **others})


def configs_of(table, **others):
    return [cell.config for cell in TABLES[table](options(**others)).cells(NothingFinished()) if cell.repeat == 0]


@pytest.mark.parametrize(
    ("table", "backbone", "chapter", "methods"),
    [
        ("3.2a", "bn_inception", 3, [(f"{loss}+ccp+gap", 512) for loss in ("c1", "c2", "ms")]),
        ("3.2b", "resnet50", 3, [(f"{loss}+ccp+gap", 512) for loss in ("c1", "c2", "ms")]),
        ("5.2a", "bn_inception", 5, [("c1+xbm+gap+gmp", 512), ("c1+xbm+gmp+gsp", 512)]),
        (
            "5.2b",
            "resnet50",
            5,
            [(f"c1+xbm+{pooling}", dim) for dim in (128, 512) for pooling in ("gap+gmp", "gmp+gsp")],
        ),
    ],
)
def test_rows_are_the_thesis_own_under_both_stopping_rules(table, backbone, chapter, methods):
    configs = configs_of(table)
    assert [(config.name, config.embedding_dim) for config in configs[::2]] == methods
    assert [config.protocol for config in configs] == ["conventional", "held_out"] * len(methods)
    assert {(config.backbone, config.chapter) for config in configs} == {(backbone, chapter)}
    assert {config.weight_decay for config in configs} == {4e-4 if backbone == "resnet50" else 1e-4}
    assert DEFAULTS[table] == {"repeats": 3}


def test_the_thesis_own_trainings_alone(drawn_cells, tmp_path):
    study = TABLES["3.2a"](options(monitors=("test_set",)))
    assert {cell.config.protocol for cell in study.cells(NothingFinished())} == {"conventional"}
    assert study.num_cells == 9
    text = study.render(drawn_cells(lambda cell: 0.4), tmp_path, "item")
    assert "c1+ccp+gap, best of 3" in text
    assert "missing" not in text
    assert "unbiased" not in text
    with pytest.raises(InvalidInput, match="--monitor: received 'held_out', expected test_set, or both"):
        TABLES["3.2a"](options(monitors=("held_out",)))
    with pytest.raises(InvalidInput, match="--monitor.*'validation'"):
        TABLES["3.2a"](options(monitors=("validation",)))


def test_quoted_rows_are_trained_on_request_and_own_ones_follow_the_options():
    assert [config.name for config in configs_of("3.2b", losses=("panchor",))[::2]] == ["panchor+gap"]
    assert {config.embedding_dim for config in configs_of("3.2b", losses=("c1+xbm",))} == {128}
    with pytest.raises(InvalidInput, match="--loss.*triplet.*c1, c2, ms"):
        configs_of("3.2a", losses=("triplet",))
    assert {config.pooling for config in configs_of("3.2a", recipe="published_code")} == {"gap+gmp"}
    assert {config.backbone for config in configs_of("5.2b", dataset="glyphs", budget="demo")} == {"resnet10"}


def test_the_best_stands_beside_the_unbiased_figure_and_the_print(drawn_cells, tmp_path):
    study = TABLES["5.2a"](options(dataset="sop"))

    def value_of(cell):
        return 0.5 if cell.config.protocol == "held_out" else 0.6 + cell.repeat / 10

    study.render(drawn_cells(value_of), tmp_path, "item")
    with (tmp_path / "item.csv").open() as file:
        rows = {(row["method"], row["metric"]): row for row in csv.DictReader(file)}
    best = rows["c1+xbm+gap+gmp, best of 3", "P@1"]
    assert best["published"] == "79.29"
    assert "c1+xbm+gmp+gsp, unbiased, mean of 3" in {method for method, _ in rows}
    assert "c1+xbm+gmp+gsp, optimism" in {method for method, _ in rows}
    assert "Optimism of the protocol" in (tmp_path / "item.md").read_text()
    assert "C1+XBM [14] (512-D) 79.50" in (tmp_path / "item.md").read_text()


def test_a_part_is_named_and_nothing_is_called_the_best(drawn_cells, tmp_path):
    study = TABLES["3.2a"](options(dataset="glyphs", budget="demo"))
    first = study.cells(NothingFinished())[0]
    text = study.render(drawn_cells(lambda cell: 0.4 if cell == first else None), tmp_path, "item")
    assert "c1+ccp+gap: missing" in text
    assert "c1+ccp+gap stops on the test set, repeat 0: P@1" in text
    assert "best of 3" not in (tmp_path / "item.csv").read_text()
