import pytest

from common.errors import InvalidInput
from experiments.parts.datasets import DATASETS
from experiments.recipes import resolve
from experiments.settings.build import build_loss


def ccp(dataset, loss="c2", budget="full", recipe="thesis", **overrides):
    return resolve(dataset, loss, "gap", recipe, budget, overrides, method="ccp")


def test_ccp_follows_chapter_three():
    config = resolve("sop", "ms", "gsp", "thesis", "full", {}, method="ccp")
    assert (config.proxies_per_class, config.pool_size, config.ccp_lambda, config.projection_patience) == (
        4,
        7,
        2e-4,
        3,
    )
    assert (config.chapter, config.normalization, config.ccp_anchors, config.name) == (
        3,
        "clip",
        "embeddings",
        "ms+ccp+gsp",
    )
    assert resolve("cars196", "c2", "gap", "thesis", "full", {}, method="ccp").proxies_per_class == 8
    published = resolve("cub200", "c2", "gap", "published_code", "full", {}, method="ccp")
    assert (published.ccp_in_batch_weight, published.ccp_first_lambda, published.ccp_continue_from) == (
        0.1,
        0.0,
        "last",
    )
    for loss in ("pnca", "c1+xbm"):
        with pytest.raises(InvalidInput, match="expected a pair loss: c1, c2, triplet, ms"):
            resolve("sop", loss, "gap", "thesis", "full", {}, method="ccp")
    with pytest.raises(InvalidInput, match="--ccp_lambda would have no effect"):
        resolve("sop", "c2", "gap", "thesis", "full", {"ccp_lambda": 0.1})


def start_of(config):
    return config.ccp_start, config.ccp_start_patience, config.ccp_goes_back, config.ccp_max_failures


def test_where_parts_begin_at_random_problems_wait_for_a_converged_loss_and_go_back():
    for recipe in ("thesis", "published_code"):
        assert start_of(ccp("glyphs", recipe=recipe)) == (1000, 3, True, 2)
        assert start_of(ccp("cars196", recipe=recipe)) == (0, None, False, None)  # as printed: ImageNet weights
    assert start_of(ccp("cars196", frozen_backbone=True)) == (1000, 3, True, 2)  # a head from scratch
    assert start_of(ccp("cars196", trained_from="head")) == (1000, 3, True, 2)
    assert start_of(ccp("cars196", weights="none")) == (1000, 3, True, 2)
    assert start_of(ccp("glyphs", weights="some.npz")) == (1000, 3, True, 2)  # the head is new
    assert ccp("cars196", frozen_backbone=True).selection_start == 1000
    assert ccp("cars196", frozen_backbone=True).proxy_multiplier == 1.0


def test_a_short_training_converges_nowhere_and_begins_at_a_fixed_step():
    assert start_of(ccp("glyphs", budget="demo")) == (400, 0, True, 2)
    assert start_of(ccp("glyphs", budget="smoke")) == (4, 0, True, 2)
    assert start_of(ccp("glyphs", budget="demo", ccp_start_patience=3)) == (400, 3, True, 2)
    assert start_of(ccp("cars196", budget="demo")) == (0, None, False, None)


def test_each_part_of_it_is_a_switch_and_a_useless_one_is_refused():
    config = ccp("sop", ccp_start_patience=5, ccp_goes_back=True, ccp_max_failures=1)
    assert start_of(config) == (0, 5, True, 1)
    assert build_loss(config, 3).warm_up_in_batch
    assert not build_loss(ccp("sop", ccp_start_patience=0), 3).warm_up_in_batch
    for switch in ({"ccp_start_patience": 3}, {"ccp_goes_back": True}, {"ccp_max_failures": 2}):
        with pytest.raises(InvalidInput, match=f"--{next(iter(switch))} would have no effect"):
            resolve("sop", "c2", "gap", "thesis", "full", switch)
    with pytest.raises(InvalidInput, match="--ccp_max_failures=2 counts problems that went back.*--ccp_goes_back"):
        ccp("sop", ccp_max_failures=2)


def test_samples_are_the_anchors_and_proxies_by_a_switch():
    for loss, recipe in (("ms", "thesis"), ("triplet", "thesis"), ("ms", "published_code")):
        assert ccp("sop", loss, recipe=recipe).ccp_anchors == "embeddings"
        assert build_loss(ccp("sop", loss, recipe=recipe, ccp_anchors="references"), 3).loss.anchors == "references"
    assert ccp("sop", "c1").ccp_anchors is None


@pytest.mark.parametrize(
    "dataset", [name for name, traits in DATASETS.items() if not traits.needs_files and name != "emoji"]
)
def test_chapter_three_has_its_batch_on_embedded_data_too(dataset):
    for method in ("plain", "ccp"):
        config = resolve(dataset, "c2", "gap", "thesis", "full", {"chapter": 3}, method)
        assert (config.classes_per_batch, config.samples_per_class) == (8, 4)
        assert (config.normalization == "clip") == (DATASETS[dataset].kind == "characters")
    config = resolve(dataset, "c2", "gap", "thesis", "full", {})
    assert (config.classes_per_batch, config.normalization == "clip") == (16, False)
