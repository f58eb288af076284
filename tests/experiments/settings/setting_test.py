import math

import pytest

from common.errors import InvalidInput
from experiments.recipes import resolve
from experiments.settings.build import MAP_POOLINGS
from experiments.settings.method_names import LOSSES
from experiments.settings.parts import all_settings

METHODS = [  # loss, method, pooling, more settings
    ("c2", "ccp", "gsp", {}),
    ("c2", "plain", "gap", {"train_fraction": 0.7}),
    ("c2", "plain", "gap", {"backbone": "vit_small_16", "layer_decay": 0.5}),
    ("c2", "plain", "gap", {"rate_drop_step": 5, "rate_drop_factor": 0.5}),
    ("margin+distance+shared+intra+dance", "plain", "gap", {}),
    ("margin+pads", "plain", "gap", {}),
    ("c2", "plain", "gap", {"left_out_images": 0.2}),
    *((loss, "plain", "gap", {}) for loss in (*LOSSES, "margin+distance+rho", "c2+s2sd", "c2+xbm")),
    *(("c2", "plain", pooling, {}) for pooling in MAP_POOLINGS),
]
CONFIGS = [
    resolve("sop", "c2", "gap", "thesis", "full", {}, protocol="held_out"),
    resolve("synthetic_tokens", "c2", "gap", "thesis", "full", {}),
    *(
        resolve("folder" if "train_fraction" in given else "sop", loss, pooling, "thesis", "full", given, method)
        for loss, method, pooling, given in METHODS
    ),
]
RANGES = {each.name: each.metadata["within"] for each in all_settings() if each.metadata["within"]}
FLOATS = [each.name for each in all_settings() if each.kind is float]


def one_with(name):
    return next(config for config in CONFIGS if getattr(config, name) is not None)


def test_every_fractional_field_has_a_range():
    assert [name for name in FLOATS if name not in RANGES] == []
    assert len(FLOATS) > 30


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_by_name(value):
    for name in FLOATS:
        with pytest.raises(InvalidInput, match=f"Invalid --{name}: received {value}, expected a number in"):
            one_with(name).replace(**{name: value})


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("beta_2", [0, 0.999], [-0.1, 1]),
        ("transport_ratio", [1e-3, 1], [0, 1.001]),
        ("zero_shot_weight", [0, 1], [-1e-9, 2]),
        ("smoothing", [1e-3, 1e6], [0, -1]),
        ("ccp_lambda", [0, 2e-4], [-2e-4]),
        ("angle", [1, 60], [0, 61]),
        ("histogram_nodes", [2], [1]),
        ("min_images", [2], [1]),
        ("ccp_max_problems", [1], [0]),
        ("ms_base", [-1, 0, 1], []),
        ("hier_neighbors", [2], [1]),
        ("pool_size", [1, 10**400], [0, -(10**400)]),
    ],
)
def test_ends(name, inside, outside):
    assert all(value in RANGES[name] for value in inside)
    assert not any(value in RANGES[name] for value in outside)
