import json
import pathlib

import numpy as np
import pytest

from ccp_dml import ChanceConstrainedLoss
from ccp_dml.projection_conditions import come_apart, fell_behind, pushed_share, started_early
from common.losses import ContrastiveLoss, CosineContrastiveLoss, MultiSimilarityLoss
from common.references import ProxyBank

RESULTS = pathlib.Path(__file__).parents[2] / "docs" / "results" / "rows"


@pytest.mark.parametrize(
    ("values", "is_early"),
    [
        ([], True),
        ([0.5], True),
        ([0.5, 0.6], True),
        ([0.5, 0.51], False),
        ([0.5, 0.6, 0.6, 0.6], True),
        ([0.5, 0.6, 0.6, 0.6, 0.6], False),
        ([0.9, 0.2, 0.3, 0.4], False),
        ([0.1, 0.5, 0.51, 0.52, 0.53], False),
        ([0.1, 0.2, 0.3, 0.4, 0.5], True),
    ],
)
def test_a_loss_has_converged_when_three_evaluations_add_at_most_a_tenth(values, is_early):
    assert (started_early("MAP@R", values) is not None) == is_early


def recorded(study):
    """Recorded runs with projection problems: row and first problem."""
    rows = map(json.loads, (RESULTS / study / "rows.jsonl").read_text(encoding="utf-8").splitlines())
    return [(row, row["extras"]["problems"]) for row in rows if row.get("extras", {}).get("problems")]


def test_recorded_validations_of_the_late_start_had_converged_and_earlier_ones_had_not():
    late = recorded("late_start_clutter")
    assert len(late) == 4
    for row, (first, *_) in late:
        values = [value for step, value in row["extras"]["validation_curve"] if step <= first["start_step"]]
        assert len(values) == 14
        assert started_early("MAP@R", values) is None
        assert all(started_early("MAP@R", values[:count]) for count in range(1, 7))


def test_a_point_below_the_in_batch_loss_is_behind():
    assert fell_behind("MAP@R", 0.491, 3, best_in_batch=0.5) is None
    assert fell_behind("MAP@R", 0.1, 3, best_in_batch=None) is None
    assert "MAP@R is 0.4890, below the 0.5000" in fell_behind("MAP@R", 0.489, 3, best_in_batch=0.5)


def test_proxies_have_come_apart_where_samples_drew_together_and_nothing_pushes():
    assert come_apart(None, 0.1, 0.0) is None
    assert come_apart(0.53, 0.3, 0.0) is None
    assert come_apart(0.53, 0.14, 0.2) is None
    assert "is 0.53, by members of the classes 0.14" in come_apart(0.53, 0.14, None)
    assert "pushes 0.3 % of the pairs" in come_apart(0.53, 0.14, 0.003)


def test_recorded_proxies_came_apart_on_cars_and_not_after_the_late_start():
    def has_come_apart(problems):
        pairs = [(problem["covering_radius_before"], problem["covering_radius_after"]) for problem in problems]
        return any(come_apart(before, after, None) for before, after in pairs)

    on_cars = [problems for row, problems in recorded("planned_cars196") if row["label"] == "c2+ccp+gap"]
    assert [has_come_apart(problems) for problems in on_cars] == [True] * 4
    assert not any(has_come_apart(problems) for _, problems in recorded("late_start_clutter"))


def test_pushed_pairs_are_those_inside_the_margin_by_a_plain_loop():
    generator = np.random.default_rng(0)
    pools, proxies = generator.normal(size=(5, 4, 3)), generator.normal(size=(5, 2, 3))
    pools, proxies = (of / np.linalg.norm(of, axis=-1, keepdims=True) for of in (pools, proxies))
    pairs = [
        (sample, proxy)
        for row in range(5)
        for sample in pools[row]
        for other in range(5)
        if other != row
        for proxy in proxies[other]
    ]
    near = np.mean([np.linalg.norm(sample - proxy) < 0.9 for sample, proxy in pairs])
    similar = np.mean([sample @ proxy > 0.3 for sample, proxy in pairs])
    bank = ProxyBank(5, 2, 3)
    assert 0 < near < similar < 1
    assert pushed_share(ChanceConstrainedLoss(ContrastiveLoss(0, 0.9), bank), pools, proxies) == pytest.approx(near)
    assert pushed_share(CosineContrastiveLoss(0.3), pools, proxies) == pytest.approx(similar)
    assert pushed_share(MultiSimilarityLoss(), pools, proxies) is None
