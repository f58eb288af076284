"""Recipes resolve to the thesis' hyper-parameters; switches and overrides do what they say."""

import dataclasses
import itertools

import pytest

from common.ops.checks import InvalidInput
from experiments import build
from experiments.config import ExperimentConfig
from experiments.recipes import DATASET_LOSSES, resolve

ALL_LOSSES = [*build.LOSSES, *(f"{loss}+xbm" for loss in build.PAIR_LOSSES)]


@pytest.mark.parametrize(("dataset", "loss"), itertools.product(build.DATASETS, ALL_LOSSES))
def test_every_method_resolves_on_every_data_set(dataset, loss):
    for pooling, recipe, budget in itertools.product(build.POOLINGS, ("thesis", "published_code"), ("full", "smoke")):
        config = resolve(dataset, loss, pooling, recipe, budget, {})
        assert (config.dataset, config.loss, config.pooling) == (dataset, loss, pooling)


def test_every_data_set_has_a_recipe():
    assert set(DATASET_LOSSES) == set(build.DATASETS)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (("cars196", "c2", "gap"), {"positive_margin": 0.2652, "negative_margin": 0.5409, "samples_per_class": 4}),
        (("cub200", "triplet", "gap"), {"margin": 0.0961, "steps_per_evaluation": 100, "patience": 15}),
        (("sop", "ms", "gap"), {"ms_alpha": 2.0, "ms_beta": 40.0, "steps_per_evaluation": 1000, "patience": 10}),
        (("inshop", "ms", "gap"), {"ms_alpha": 8.49, "ms_beta": 57.38, "ms_base": 0.41}),
        (
            ("sop", "pnca", "gsp"),
            {"temperature": 0.11, "smoothing": 0.5, "num_prototypes": 128, "classes_per_batch": 32},
        ),
        (
            ("cub200", "c2", "gsp"),
            {"smoothing": 5.0, "num_prototypes": 64, "transport_ratio": 0.3, "zero_shot_weight": 0.1},
        ),
        (("sop", "panchor", "gap"), {"learning_rate": 5e-6, "proxy_multiplier": 100.0, "warm_up_epochs": 1}),
        (("sop", "c1+xbm", "gap"), {"memory_batches": 1400, "memory_start": 1000, "margin": 0.5}),
        (("cars196", "softtriple", "gap"), {"centers_per_class": 10, "softtriple_margin": 0.3588}),
    ],
)
def test_thesis_values(method, expected):
    config = resolve(*method, "thesis", "full", {})
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.learning_rate == 1e-5) or method[1] == "panchor"
    assert (config.beta_2, config.weight_decay, config.normalization, config.image_size) == (0.99, 1e-4, "unit", 227)


def test_chapter_three_clips_the_norm_and_validates_more_often():
    config = resolve("cub200", "c2", "gap", "thesis", "full", {"chapter": 3})
    assert (config.normalization, config.steps_per_evaluation, config.patience) == ("clip", 25, 60)
    assert resolve("sop", "pnca", "gap", "thesis", "full", {"chapter": 3}).temperature == 0.1


def test_the_published_code_flips_its_switches():
    def differences(*method):
        thesis, published = (resolve(*method, recipe, "full", {}) for recipe in ("thesis", "published_code"))
        pairs = zip(dataclasses.asdict(thesis).items(), dataclasses.asdict(published).values())
        return {name: value for (name, old), value in pairs if old != value}

    assert differences("cub200", "c1+xbm", "gsp") == {
        "recipe": "published_code",
        "beta_2": 0.999,
        "clip_norm": 10.0,
        "clip_value": 10.0,
        "crop": "published_code",
        "fold_order": "backward",
        "memory_fills_first": True,
        "memory_holds_batch": True,
        "solver": "fixed_point",
        "num_iterations": 100,
        "zero_shot_scale": 9.5,
        "zero_shot_reduction": "mean",
        "zero_shot_halves": "even_odd",
    }
    assert differences("sop", "pnca", "gap").keys() >= {"warm_up_epochs", "warm_up_steps", "proxy_initializer"}


def test_overrides_win_and_useless_ones_are_refused():
    assert resolve("glyphs", "pnca", "gap", "thesis", "demo", {"max_steps": 7}).max_steps == 7
    with pytest.raises(InvalidInput, match="--margin, --smoothing would have no effect with --loss=pnca --pooling=gap"):
        resolve("glyphs", "pnca", "gap", "thesis", "full", {"margin": 0.1, "smoothing": 5.0})
    with pytest.raises(InvalidInput, match="--recipe.*'paper'.*thesis, published_code"):
        resolve("glyphs", "pnca", "gap", "paper", "full", {})
    with pytest.raises(InvalidInput, match="--chapter.*4.*3, 5"):
        resolve("glyphs", "pnca", "gap", "thesis", "full", {"chapter": 4})


def test_every_field_changes_the_hash_and_data_do_too(tmp_path):
    config = resolve("glyphs", "c1+xbm", "gsp", "thesis", "full", {})
    assert config.hash("data") == config.hash("data") != config.hash("other data")
    seen = {config.hash("data")}
    for field in dataclasses.fields(ExperimentConfig):
        value = getattr(config, field.name)
        changed = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v / 2 + 0.123, str: lambda v: v + "x"}
        if value is None or field.name in ("weights", "fold_order", "clip_norm", "clip_value"):
            continue
        other = dataclasses.replace(config, **{field.name: changed[type(value)](value)})
        assert other.hash("data") not in seen, field.name
        seen.add(other.hash("data"))


def test_a_weights_file_counts_by_its_content(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"parameters")
    (tmp_path / "b.npz").write_bytes(b"parameters")
    (tmp_path / "c.npz").write_bytes(b"others")
    base = resolve("cub200", "c2", "gap", "thesis", "full", {})
    hashes = [dataclasses.replace(base, weights=str(tmp_path / name)).hash("d") for name in ("a.npz", "b.npz", "c.npz")]
    assert hashes[0] == hashes[1] != hashes[2]
    with pytest.raises(InvalidInput, match=r"missing\.npz cannot be read"):
        dataclasses.replace(base, weights=str(tmp_path / "missing.npz")).hash("d")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"transport_ratio": 1.5}, r"transport_ratio: received 1.5, expected a number in \(0, 1\]"),
        ({"zero_shot_weight": -0.1}, "zero_shot_weight"),
        ({"num_folds": 1}, "--num_folds: received 1, expected 2 or more"),
        ({"fold_order": "shuffled"}, "--fold_order.*forward, backward"),
        ({"learning_rate": 0.0}, "--learning_rate: received 0.0"),
        ({"beta_2": 1.0}, "--beta_2"),
        ({"clip_norm": 10.0}, "given together"),
        ({"weight_decay": -1e-4}, "--weight_decay"),
    ],
)
def test_values_out_of_range(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        resolve("glyphs", "pnca", "gsp", "thesis", "full", overrides)


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
        "references",
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


def test_the_number_of_projection_problems_can_be_limited():
    config = resolve("sop", "c2", "gap", "thesis", "full", {"ccp_max_problems": 1}, method="ccp")
    assert config.ccp_max_problems == 1
    assert resolve("sop", "c2", "gap", "thesis", "full", {}, method="ccp").ccp_max_problems is None
    with pytest.raises(InvalidInput, match="--ccp_max_problems would have no effect"):
        resolve("sop", "c2", "gap", "thesis", "full", {"ccp_max_problems": 1})
    with pytest.raises(InvalidInput, match="--ccp_max_problems"):
        resolve("sop", "c2", "gap", "thesis", "full", {"ccp_max_problems": 0}, method="ccp")
