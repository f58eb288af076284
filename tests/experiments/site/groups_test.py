import dataclasses
import json
import re
import types

import numpy as np
import pytest

from experiments.reports.verdicts import Verdict
from experiments.rows.run_folders import collect
from experiments.settings.config import identity_digest
from experiments.site import drawn_run, pages
from experiments.site.groups import read_studies, short_value


def test_methods_of_one_name_say_in_what_they_differ(empty_study):
    for smoothing in (5.0, 20.0):
        empty_study.finish(empty_study.config("c2", "gsp", smoothing=smoothing))
    (found,), problems = read_studies(collect(empty_study.folder))
    assert problems == []
    assert {method.name for method in found.methods} == {"c2+gsp, smoothing 5.0", "c2+gsp, smoothing 20.0"}


def test_few_fields_tell_methods_apart_or_their_hashes(empty_study):
    settings = [{"smoothing": smoothing, "transport_ratio": smoothing / 40} for smoothing in (5.0, 20.0)]
    for values in settings:
        empty_study.finish(empty_study.config("c2", "gsp", **values))
    for seed, rate, decay, patience in ((0, 1e-3, 0.0, 5), (1, 1e-3, 0.0, 5), (0, 2e-3, 0.0, 5), (0, 1e-3, 1e-4, 5)):
        config = empty_study.config("c2", "gap", seed=seed, learning_rate=rate, weight_decay=decay, patience=patience)
        empty_study.finish(config)
    (found,), _ = read_studies(collect(empty_study.folder))
    labels = [method.name for method in found.methods]
    hashes = [method.runs[0]["config_hash"] for method in found.methods]
    assert labels[:4] == [f"c2+gap, configuration {text}" for text in hashes[:4]]
    assert set(labels[4:]) == {"c2+gsp, transport_ratio 0.125", "c2+gsp, transport_ratio 0.5"}


def test_sizes_and_repeats_make_studies_of_their_own(empty_study):
    for dim, repeats in ((8, 1), (8, 2), (16, 1)):
        config = empty_study.config("c2" if repeats == 1 else "pnca", "gap", embedding_dim=dim)
        for fold in (0, 1):
            for repeat in range(repeats):
                empty_study.finish(config, fold, repeat)
    found, _ = read_studies(collect(empty_study.folder))
    assert sorted(one.title for one in found) == [
        "Fair protocol on glyphs, at most 100 steps, set by hand, 16-D: 2 folds, 1 repeat",
        "Fair protocol on glyphs, at most 100 steps, set by hand, 8-D: 2 folds, 1 repeat",
        "Fair protocol on glyphs, at most 100 steps, set by hand, 8-D: 2 folds, 2 repeats",
    ]
    (repeated,) = [one for one in found if "2 repeats" in one.title]
    assert repeated.rows[1].cells["single 8-D", "MAP@R"].std is not None


def test_other_data_make_a_study_of_their_own(empty_study):
    for loss in ("c2", "pnca"):
        empty_study.finish(empty_study.config(loss, "gap"))
    first, second = collect(empty_study.folder)
    assert len(read_studies([first, second])[0]) == 1
    others = [dataclasses.replace(row, config={**row.config, "data": "0123456789abcdef"}) for row in second]
    assert len(read_studies([first, others])[0]) == 2


def test_reasons_are_numbered_as_they_come():
    verdicts = [Verdict("inconclusive", reason) for reason in ("one", "two", "one")]
    cells = [types.SimpleNamespace(verdict=said, margin="") for said in verdicts]
    reasons: list[str] = []
    numbers = [re.search(r"\[(\d)\]", pages._verdict(cell, reasons))[1] for cell in cells]
    assert (numbers, reasons) == (["1", "2", "1"], ["one", "two"])


def test_a_query_is_not_among_its_neighbours_even_if_another_row_equals_it():
    rows = np.float32([[1, 0], [1, 0], [0, 1]])
    assert drawn_run.neighbors_of(rows, None, np.array([0, 1]), 2).tolist() == [[1, 2], [0, 2]]


def test_runs_that_all_methods_have_stand_in_where_none_is_complete(empty_study):
    for loss, noise in (("c2", 0.9), ("pnca", 0.2)):
        empty_study.finish(empty_study.config(loss, "gap"), fold=1, noise=noise)
    (found,), _ = read_studies(collect(empty_study.folder))
    assert [row.method for row in found.rows] == ["untrained backbone", "c2+gap", "pnca+gap"]
    assert "what all begun methods have: fold 1 repeat 0" in found.notes[0]
    difference = found.rows[2].cells["single minus c2+gap", "MAP@R"]
    single = [row.cells["single 8-D", "MAP@R"].mean for row in found.rows[1:]]
    assert difference.is_difference
    assert difference.mean == pytest.approx(single[1] - single[0])
    assert len(found.missing) == 2


def test_both_stopping_rules_meet_in_one_table_and_an_absent_one_is_named(empty_study):
    biased, held_out = (empty_study.config("c2", "gap", protocol) for protocol in ("conventional", "held_out"))
    alone = empty_study.config("pnca", "gap", "held_out")
    empty_study.finish(biased)
    empty_study.finish(held_out, noise=0.8)
    empty_study.finish(alone)
    (found,), problems = read_studies(collect(empty_study.folder))
    assert problems == []
    assert found.metric == "P@1"
    names = [row.method for row in found.rows]
    assert "c2+gap, optimism" in names
    assert "pnca+gap, unbiased, mean of 1" in names
    assert "pnca+gap, best of 1" not in names
    assert any("pnca+gap: missing stops on the test set, repeat 0" in line for line in found.missing)
    assert any(note.startswith("c2+gap: optimism of the protocol") for note in found.notes)


def test_the_revisiting_protocol_has_a_table_of_its_own(empty_study):
    conventional = empty_study.config("c2", "gap", "conventional")
    empty_study.finish(conventional)
    empty_study.finish(dataclasses.replace(conventional, recipe="revisiting"))
    found, _ = read_studies(collect(empty_study.folder))
    assert [one.title.split(" protocol")[0] for one in found] == ["Conventional", '"Revisiting"']
    row = found[1].rows[0]
    assert row.method == "c2+gap, best test epoch of each metric"
    assert row.cells["8-D", "R@2"].mean == pytest.approx(0.6)
    assert "Best test epoch" in found[1].notes[0]


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(empty_study):
    whole, damaged, foreign = (empty_study.config(loss, "gap") for loss in ("c2", "pnca", "ms"))
    for config in (whole, damaged, foreign):
        for fold in (0, 1):
            path = empty_study.finish(config, fold)
            if config is damaged:
                (path / "test_embeddings.npz").write_bytes(b"PK")
            if config is foreign:  # of a version with few settings, which its folder is named after
                (path / "config.json").write_text(json.dumps({"loss": "ms"}))
                stated = json.loads((path / "result.json").read_text())
                (path / "result.json").write_text(
                    json.dumps({**stated, "config_hash": identity_digest({"loss": "ms"})})
                )
    path.parent.rename(path.parent.with_name(f"{foreign.name}-{identity_digest({'loss': 'ms'})[:10]}"))
    (found,), problems = read_studies(collect(empty_study.folder))
    assert [row.method for row in found.rows] == ["untrained backbone", "c2+gap"]
    assert any("pnca+gap is not in the table" in line and "cannot be read" in line for line in found.missing)
    assert len(problems) == 1
    assert "another version of this code" in problems[0]


def test_titles_have_eight_digits_of_a_digest():
    digest = "396b57595dfb8f000e769346a2874c4fc881183bc14f964a1c9eef4ef2787937"
    assert short_value(f"sha256:{digest}") == "sha256:396b5759..."
    assert short_value(f"parameters-sha256:{digest}") == "parameters-sha256:396b5759..."
    assert short_value("imagenet") == "imagenet"
