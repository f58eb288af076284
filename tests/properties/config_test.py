import dataclasses
import json

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from common.errors import InvalidInput
from experiments.recipes import resolve
from experiments.settings import build
from experiments.settings.config import ExperimentConfig, by_flag_names
from experiments.settings.method_names import PAIR_LOSSES
from experiments.settings.run_settings import BUDGETS, OWN_PHOTOS, RECIPES

NUM_EXAMPLES = 60
# The same examples in every run, so that CI fails only when the code does.
settings.register_profile(
    "deterministic",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("deterministic")
LOSSES = [*build.LOSSES, *(f"{loss}{part}" for loss in PAIR_LOSSES for part in ("+xbm", "+random+rho"))]
OVERRIDES = st.fixed_dictionaries(
    {},
    optional={
        "learning_rate": st.floats(1e-7, 1.0),
        "weight_decay": st.floats(0.0, 1.0),
        "embedding_dim": st.integers(1, 4096),
        "classes_per_batch": st.integers(1, 200),
        "beta_2": st.floats(0.0, 0.99999),
        "max_steps": st.integers(1, 10**9),
        "seed": st.integers(0, 2**32),
        "num_folds": st.integers(2, 10),
        "backbone": st.sampled_from(["resnet50", "a_name_of_keras"]),
    },
)
CONFIGS = st.builds(
    resolve,
    st.sampled_from(sorted(build.DATASETS)),
    st.sampled_from(LOSSES),
    st.sampled_from(sorted(build.POOLINGS)),
    st.sampled_from([recipe for recipe in RECIPES if recipe != OWN_PHOTOS]),  # which is for some data sets alone
    st.sampled_from(BUDGETS),
    OVERRIDES,
)
OUT_OF_RANGE = {
    "learning_rate": st.floats(max_value=0.0),
    "embedding_dim": st.integers(max_value=0),
    "weight_decay": st.floats(max_value=0.0, exclude_max=True),
    "seed": st.integers(max_value=-1),
    "beta_2": st.one_of(st.floats(max_value=0.0, exclude_max=True), st.floats(min_value=1.0)),
    "num_folds": st.integers(max_value=1),
    "fold_order": st.text(max_size=5),
    "transport_ratio": st.one_of(st.floats(max_value=0.0), st.floats(min_value=1.0, exclude_min=True)),
}


@settings(max_examples=NUM_EXAMPLES)
@given(config=CONFIGS)
def test_a_configuration_survives_json_with_its_hash(config):
    again = ExperimentConfig.of(json.loads(json.dumps(config.as_dict())))
    assert ExperimentConfig.of(by_flag_names(json.loads(json.dumps(config.stored())))) == config
    assert again == config
    assert dataclasses.replace(again, weights="none").hash("d") == dataclasses.replace(config, weights="none").hash("d")


@settings(max_examples=NUM_EXAMPLES)
@given(config=CONFIGS, other=CONFIGS)
def test_different_configurations_or_data_have_different_hashes(config, other):
    config, other = (dataclasses.replace(each, weights="none") for each in (config, other))
    assert (config.hash("data") == other.hash("data")) == (config == other)
    assert config.hash("data") != config.hash("other data")


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_what_is_out_of_range_is_refused_by_name(name):
    config = resolve("cub200", "c2", "gsp", "thesis", "full", {})

    @settings(max_examples=20)
    @given(value=OUT_OF_RANGE[name])
    def refuses(value):
        with pytest.raises(InvalidInput, match=f"--{name}"):
            config.replace(**{name: value})

    refuses()
