import dataclasses

import pytest

import ccp_dml.method
from common.errors import InvalidInput
from common.training.methods import Memory
from experiments.parts.registry import METHODS
from experiments.recipes import resolve
from experiments.settings.config import ExperimentConfig, by_flag_names
from experiments.settings.method_names import LOSSES
from experiments.settings.parts import all_settings

MEMORY = resolve("cars196", "c1+xbm", "gsp", "thesis", "full", {"xbm_batches": 3})


def test_a_part_gives_its_values_and_another_method_has_none():
    assert MEMORY.methods_of(Memory)[0].batches == MEMORY.xbm_batches == 3
    assert MEMORY.methods_of(ccp_dml.method.Method) == []
    assert MEMORY.ccp_lambda is None
    with pytest.raises(AttributeError, match="no setting 'xbm_batchs'"):
        _ = MEMORY.xbm_batchs


def test_what_is_stored_keeps_the_names_of_older_runs():
    stored = MEMORY.stored()
    assert (stored["memory_batches"], stored["memory_size"]) == (3, 1024)
    assert not {"xbm_batches", "gsp_memory_size", "parts", "sources"} & stored.keys()
    assert ExperimentConfig.of(by_flag_names(stored)) == MEMORY
    assert MEMORY.hash("data") != MEMORY.hash("other data")


@pytest.mark.parametrize(("loss", "method"), [("c1", "ccp"), ("margin+distance+shared", "plain")])
def test_a_stated_default_of_a_newer_setting_leaves_the_hash_as_it_was(loss, method):
    plain = resolve("cars196", loss, "gsp", "thesis", "full", {}, method)
    newer = {
        field.name: field.default
        for part in (plain, *plain.parts)
        for field in dataclasses.fields(part)
        if field.metadata and getattr(part, field.name) == field.default
        if field.metadata["omit_default"] or (field.metadata["omit_default"] is None and not part.stores_defaults)
    }
    assert len(newer) > 20
    assert plain.replace(**newer).stored() == plain.stored()
    assert not newer.keys() & plain.stored().keys()
    assert {name for name, value in newer.items() if value is not None} <= plain.as_dict().keys()


def test_sources_follow_the_values_and_decide_nothing():
    assert MEMORY.sources["xbm_batches"] == "given on the command line"
    changed = MEMORY.replace(seed=4)
    assert "seed" not in changed.sources
    assert changed.sources["margin"] == MEMORY.sources["margin"]
    bare = ExperimentConfig.of(MEMORY.as_dict())
    assert bare == MEMORY
    assert bare.sources == {}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"margin": 0.5}, "received no .*learning_rate.*loss"),
        ({**MEMORY.as_dict(), "ccp_lambda": 1.0}, "received 'ccp_lambda', expected settings of its method alone"),
        ({**MEMORY.as_dict(), "xbm_start": None}, "received no xbm_start"),
        ({**MEMORY.as_dict(), "solver": "newton"}, "--solver: received 'newton', expected one of exact, fixed_point"),
    ],
)
def test_wrong_values_are_refused(values, message):
    with pytest.raises(InvalidInput, match=message):
        ExperimentConfig.of(values)


def test_every_setting_has_one_home_and_a_section():
    names = [each.name for each in all_settings()]
    assert len(names) == len(set(names)) > 90
    assert {each.section for each in all_settings()} >= {"Training", "Cross-batch memory (+xbm)"}
    assert all(each.section and each.metadata["help"] for each in all_settings())
    assert {part.settings.title for part in METHODS.values()} <= {each.section for each in all_settings()}
    assert set(LOSSES) >= {"c1", "ms", "pnca"}
