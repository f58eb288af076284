import pytest

from common.errors import InvalidInput
from experiments.recipes import resolve
from tests.support.command_line import done_here, run_here


def resolved(loss, **overrides):
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return resolve("glyphs", loss, "gsp", "thesis", "full", given)


@pytest.mark.parametrize(
    ("loss", "flag", "name", "value"),
    [
        ("ms", "ms__positive_scale", "ms_alpha", 3.0),
        ("c1+xbm", "c1__reduction", "pair_reduction", "mean_of_active"),
        ("c2", "gsp__memory_size", "gsp_memory_size", 2048),
        ("triplet", "triplet__mining", "triplet_mining", "semi_hard"),
    ],
)
def test_a_part_s_own_flag_is_another_name_of_its_setting(loss, flag, name, value):
    config = resolved(loss, **{flag: value})
    assert getattr(config, name) == value
    assert config == resolved(loss, **{name: value})


def test_a_flag_of_a_part_that_is_not_chosen_says_whose_it_is():
    with pytest.raises(InvalidInput, match="--ms.threshold would have no effect with --loss=c2 .*: it belongs to ms"):
        resolved("c2", ms__threshold=0.4)


def test_two_names_of_one_setting_are_refused():
    with pytest.raises(InvalidInput, match="--ms_alpha and --ms.positive_scale are two names of one setting"):
        resolved("ms", ms__positive_scale=3.0, ms_alpha=2.0)


def test_of_several_methods_a_part_s_flag_sets_its_own_alone():
    arguments = ["--dataset=glyphs", "--methods=c1+gap,triplet+gap", "--explain", "--c1.margin=0.25"]
    values = done_here("experiments.fair_eval", *arguments).stdout
    assert [line.split()[1] for line in values.splitlines() if line.startswith("margin ")] == ["0.25", "0.0451"]
    refused = run_here("experiments.fair_eval", *arguments[:-1], "--ms.threshold=0.4")
    assert refused.returncode == 2
    assert "it belongs to ms" in refused.stderr
    refused = run_here("experiments.fair_eval", *arguments[:-1], "--triplet.margin=-1")
    assert "Invalid --triplet.margin: received -1.0, expected a number in [0, inf)" in refused.stderr
