import csv

from experiments.settings.recipes import resolve
from experiments.studies.poolings import report
from tests.experiments.written_results import drawn_unit


def unit_of(folder, name, repeat, configuration=None):
    return drawn_unit(folder / f"{name}-{repeat}", repeat, [*name.encode(), repeat], 0.8, configuration)


def test_a_difference_is_of_the_same_trainings_and_the_others_are_named(tmp_path):
    repeats = {"gap": (0, 1), "gmp": (0, 1), "gsp": (0,), "gemean": ()}
    configs = [resolve("glyphs", "c2", pooling, "thesis", "smoke", {}) for pooling in repeats]
    runs = [
        [
            unit_of(tmp_path / config.name, config.pooling, repeat, config.as_dict())
            for repeat in repeats[config.pooling]
        ]
        for config in configs
    ]
    text = report(configs, runs, tmp_path / "out")
    lines = list(csv.DictReader((tmp_path / "out" / "pooling_comparison.csv").read_text().splitlines()))
    differences = {line["method"]: line for line in lines if line["size"] == "minus gap"}
    assert set(differences) == {"c2+gmp"}
    assert f"{float(differences['c2+gmp']['mean']):+.2f}" in text
    assert float(differences["c2+gmp"]["detectable"]) > 0
    assert "Not trained yet: c2+gemean." in text
    assert "Not all runs are finished: c2+gsp (1 of 2)." in text
