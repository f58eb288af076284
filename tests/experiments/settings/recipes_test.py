import dataclasses
import itertools

import pytest

from common.errors import InvalidInput
from experiments.parts.datasets import DATASETS
from experiments.parts.registry import METHODS
from experiments.recipes import departures, draft_of, resolve
from experiments.recipes.thesis import loss_values
from experiments.settings import build
from experiments.settings.method_names import PAIR_LOSSES
from experiments.settings.parts import all_settings

OF_REGULARIZERS = METHODS["regularizers"].settings.names()
OF_HIER = [name for name in OF_REGULARIZERS if name.startswith("hier_") and name != "hier_weight"]
ALL_LOSSES = [*build.LOSSES, *(f"{loss}{part}" for loss in PAIR_LOSSES for part in ("+xbm", "+distance+rho"))]


OTHERS = [*itertools.product(build.POOLINGS, ("thesis", "published_code"), ("full", "smoke"))]


@pytest.mark.parametrize(
    "place", [0, *(pytest.param(place, marks=pytest.mark.release) for place in range(1, len(OTHERS)))]
)
def test_every_method_resolves_on_every_data_set(place):
    """Every data set with every loss, each with another pooling, recipe and budget."""
    for number, (dataset, loss) in enumerate(itertools.product(build.DATASETS, ALL_LOSSES)):
        pooling, recipe, budget = OTHERS[(place + number) % len(OTHERS)]
        config = resolve(dataset, loss, pooling, recipe, budget, {})
        assert (config.dataset, config.loss, config.pooling) == (dataset, loss, pooling)


@pytest.mark.parametrize(
    ("dataset", "loss", "expected"),
    [
        ("cub200", "margin+distance", {"margin": 0.2, "boundary": 1.2, "boundary_per_class": True, "p_switch": None}),
        ("cub200", "margin+distance+rho", {"p_switch": 0.35, "proxy_multiplier": 50.0}),
        ("cub200", "c2+distance+rho", {"p_switch": 0.4, "negative_margin": 0.3841, "proxy_multiplier": 1.0}),
        ("cars196", "snr_triplet+distance+rho", {"p_switch": 0.35, "margin": 0.2, "mean_penalty": 0.005}),
        ("glyphs", "triplet+distance+rho", {"p_switch": 0.15, "samples_per_class": 4}),
        ("sop", "normsoftmax", {"temperature": 0.05, "proxy_multiplier": 200.0, "samples_per_class": 1}),
        ("cub200", "arcface", {"margin": 0.5, "loss_scale": 16.0, "proxy_multiplier": 50.0}),
        ("glyphs", "arcface", {"proxy_multiplier": 10.0, "classes_per_batch": 16}),
        ("cars196", "histogram", {"histogram_nodes": 65}),
        ("inshop", "histogram", {"histogram_nodes": 11}),
        ("synthetic_tokens", "npair", {"loss_scale": 1.0, "norm_penalty": 0.005}),
        ("sop", "angular", {"angle": 45.0, "angular_weight": 2.0, "loss_scale": 16.0, "norm_penalty": 0.0}),
    ],
)
def test_values_of_the_benchmark(dataset, loss, expected):
    config = resolve(dataset, loss, "gap", "thesis", "full", {})
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (("cars196", "c2", "gap"), {"positive_margin": 0.2652, "negative_margin": 0.5409, "samples_per_class": 4}),
        (("cub200", "triplet", "gap"), {"margin": 0.0961, "steps_per_evaluation": 100, "patience": 15}),
        (("sop", "ms", "gap"), {"ms_alpha": 2.0, "ms_beta": 40.0, "steps_per_evaluation": 1000, "patience": 10}),
        (
            ("sop", "pnca", "gsp"),
            {"temperature": 0.11, "smoothing": 0.5, "num_prototypes": 128, "classes_per_batch": 32},
        ),
        (
            ("cub200", "c2", "gsp"),
            {"smoothing": 5.0, "num_prototypes": 64, "transport_ratio": 0.3, "zero_shot_weight": 0.1},
        ),
        (("sop", "panchor", "gap"), {"learning_rate": 5e-6, "proxy_multiplier": 100.0, "warm_up_epochs": 1}),
        (("sop", "c1+xbm", "gap"), {"xbm_batches": 1400, "xbm_start": 1000, "margin": 0.5}),
    ],
)
def test_thesis_values(method, expected):
    config = resolve(*method, "thesis", "full", {})
    assert {name: getattr(config, name) for name in expected} == expected
    assert (config.learning_rate == 1e-5) or method[1] == "panchor"
    assert (config.beta_2, config.weight_decay, config.normalization, config.image_size) == (0.99, 1e-4, "unit", 227)


SMALL = [name for name, traits in DATASETS.items() if not traits.photographs]


@pytest.mark.parametrize("dataset", SMALL)
def test_validation_alone_ends_a_full_training_and_no_short_one(dataset):
    for loss, chapter in itertools.product(("c2", "pnca"), (3, 5)):
        of_chapter = {"chapter": chapter}
        full, demo, smoke = (
            resolve(dataset, loss, "gsp", "thesis", budget, of_chapter) for budget in ("full", "demo", "smoke")
        )
        assert full.max_steps == 10_000 * full.steps_per_evaluation
        assert (demo.max_steps, smoke.max_steps) == (1000, 8)
        assert demo.weight_decay == smoke.weight_decay == 1e-4


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("synthetic_tokens", {"learning_rate": 1e-4, "weight_decay": 0.0, "patience": 30, "normalization": "none"}),
        (
            "cifar_collage",
            {
                "learning_rate": 1e-3,
                "weight_decay": 0.0,
                "frozen_batch_norm": False,
                "plateau_patience": 5,
                "steps_per_evaluation": 300,  # an epoch: 19,200 collages
                "num_prototypes": 64,
                "transport_ratio": 0.2,
                "smoothing": 10.0,
                "zero_shot_weight": 0.5,
                "gsp_memory_features": "image_averages",
            },
        ),
        ("glyphs", {"learning_rate": 1e-3, "weight_decay": 1e-4, "steps_per_evaluation": 200}),
        ("emoji", {"backbone": "efficientnet_lite0", "weights": "imagenet", "learning_rate": 1e-4, "image_size": 96}),
    ],
)
def test_full_trainings_on_embedded_data(dataset, expected):
    config = resolve(dataset, "c2", "gsp", "thesis", "full", {})
    assert {name: getattr(config, name) for name in expected} == expected
    assert config.batch_size == (32 if dataset == "emoji" else 64)


def test_chapter_three_clips_the_norm_and_validates_more_often():
    config = resolve("cub200", "c2", "gap", "thesis", "full", {"chapter": 3})
    assert (config.normalization, config.steps_per_evaluation, config.patience) == ("clip", 25, 60)
    assert resolve("sop", "pnca", "gap", "thesis", "full", {"chapter": 3}).temperature == 0.1


@pytest.mark.parametrize(
    ("method", "way", "protocol", "expected"),
    [
        (("sop", "pnca", "gsp"), "plain", None, "877777ca73"),
        (("cub200", "c2", "gsp"), "plain", None, "4f216bae4f"),
        (("inshop", "c1+xbm", "gsp"), "plain", None, "27a34e6ecf"),
        (("cars196", "c1", "gsp"), "ccp", None, "1211e4d642"),
        # Until samples became the anchors of CCP, these two were 245a01c24c and a4020c3fbc (`ccp_anchors=references`).
        (("cars196", "triplet", "gap"), "ccp", None, "52cf2b5173"),
        (("cars196", "ms", "gap"), "ccp", None, "880d31678b"),
        (("sop", "panchor", "gap+gmp"), "plain", "conventional", "15a6e611af"),
    ],
)
def test_the_thesis_recipe_keeps_its_hashes_so_that_finished_runs_are_found_again(method, way, protocol, expected):
    assert resolve(*method, "thesis", "full", {}, way, protocol).hash("data") == expected


def test_overrides_win_and_useless_ones_are_refused():
    assert resolve("glyphs", "pnca", "gap", "thesis", "demo", {"max_steps": 7}).max_steps == 7
    with pytest.raises(InvalidInput, match="--margin, --smoothing would have no effect with --loss=pnca --pooling=gap"):
        resolve("glyphs", "pnca", "gap", "thesis", "full", {"margin": 0.1, "smoothing": 5.0})
    with pytest.raises(InvalidInput, match="--recipe.*'paper'.*thesis, published_code"):
        resolve("glyphs", "pnca", "gap", "paper", "full", {})
    with pytest.raises(InvalidInput, match="--chapter.*4.*3, 5"):
        resolve("glyphs", "pnca", "gap", "thesis", "full", {"chapter": 4})


@pytest.mark.parametrize(
    ("method", "way", "protocol", "overrides", "expected"),
    [
        (
            ("cars196", "ms", "gsp", "thesis", "full"),
            "plain",
            None,
            {"learning_rate": 1e-4},
            {
                "ms_beta": (75.83, "thesis 3.3.2.1, losses"),
                "learning_rate": (1e-4, "given on the command line"),
                "smoothing": (5.0, "thesis 5.3.4.1, GSP"),
                "patience": (15, "thesis 5.3.4.1"),
            },
        ),
        (
            ("glyphs", "c2", "gap", "thesis", "demo"),
            "ccp",
            None,
            {},
            {
                "max_steps": (1000, "--budget=demo"),
                "pool_size": (7, "ours, after thesis 3.3.2.1, CCP"),
                "ccp_start_patience": (0, "--budget=demo"),
                "ccp_goes_back": (True, "ours, where the thesis is open"),
                "positive_margin": (0.2858, "ours, after thesis 3.3.2.1, losses"),
                "selection_start": (400, "what has to wait"),
            },
        ),
        (
            ("sop", "pnca", "gsp", "published_code", "full"),
            "plain",
            "conventional",
            {},
            {
                "solver": ("fixed_point", "published code"),
                "plateau_patience": (3, "published code, conventional protocol"),
            },
        ),
    ],
)
def test_every_value_has_the_layer_that_set_it_last(method, way, protocol, overrides, expected):
    draft = draft_of(*method, overrides, way, protocol)
    assert draft.values.keys() == draft.sources.keys()
    assert {name: (draft.values[name], draft.sources[name]) for name in expected} == expected
    lines = draft.as_text().splitlines()
    assert [line.split()[0] for line in lines] == [name for name, value in draft.values.items() if value is not None]


@pytest.mark.parametrize("protocol", [None, "conventional"])
def test_departures_are_what_was_set_by_hand(protocol):
    given = {"backbone": "resnet50", "normalization": "clip", "chapter": 5}
    plain = resolve("cub200", "c2", "gsp", "thesis", "full", given, protocol=protocol)
    assert departures(plain) == {}
    changed = resolve(
        "cub200", "c2", "gsp", "thesis", "full", {**given, "smoothing": 9.0, "seed": 2}, protocol=protocol
    )
    assert departures(changed) == {"smoothing": 5.0, "seed": 0}
    assert departures(changed, given=("chapter",))["backbone"] == "bn_inception"


def test_every_field_changes_the_hash_and_data_do_too(tmp_path):
    config = resolve("glyphs", "c1+xbm", "gsp", "thesis", "full", {})
    assert config.hash("data") == config.hash("data") != config.hash("other data")
    seen = {config.hash("data")}
    for each in all_settings():
        value = getattr(config, each.name)
        changed = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v / 2 + 0.123, str: lambda v: v + "x"}
        if value is None or each.name in ("loss", "pooling", "method", "weights", "clip_norm", "clip_value"):
            continue
        others = [choice for choice in each.metadata["choices"] if choice != value] or [changed[type(value)](value)]
        beside = {
            "strategy": {"replicas": 2},
            "fold_batch_norm": {"frozen_batch_norm": True},
            "lora_norms": {"backbone": "vit_small_16", "lora_rank": 2},
            "prompt_blocks": {"backbone": "vit_small_16", "num_prompts": 2},
            "superclasses_per_batch": {"sampler": "superclasses", "classes_per_batch": 12},
            "coding_rate_precision": {"coding_rate_weight": 0.1},
            **dict.fromkeys(["tcm_positive_margin", "tcm_negative_margin"], {"tcm_weight": 0.1}),
            **dict.fromkeys(OF_HIER, {"hier_weight": 0.1}),
        }.get(each.name, {})
        other = config.replace(**{each.name: others[0]}, **beside)
        without = config if each.name == "strategy" else config.replace(**beside)
        assert other.hash("data") not in {*seen, without.hash("data")}, each.name
        seen.add(other.hash("data"))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"fold_order": "shuffled"}, "--fold_order.*forward, backward"),
        ({"clip_norm": 10.0}, "given together"),
    ],
)
def test_values_out_of_range(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        resolve("glyphs", "pnca", "gsp", "thesis", "full", overrides)


def conventional(
    dataset, loss, recipe="thesis", method="plain", pooling="gap+gmp", protocol="conventional", **overrides
):
    return resolve(dataset, loss, pooling, recipe, "full", overrides, method, protocol)


@pytest.mark.parametrize(
    ("dataset", "backbone", "expected"),
    [
        ("cub200", "bn_inception", (1e-5, 1e-4, 32, 25, 15)),
        ("cars196", "bn_inception", (1e-4, 1e-4, 32, 25, 15)),
        ("sop", "bn_inception", (1e-4, 1e-4, 32, 250, 10)),
        ("inshop", "resnet50", (1e-4, 4e-4, 28, 250, 10)),
        ("cub200", "resnet50", (1e-5, 4e-4, 28, 25, 15)),
    ],
)
def test_conventional_values_of_the_thesis(dataset, backbone, expected):
    for protocol in ("conventional", "held_out"):
        config = conventional(dataset, "c2", backbone=backbone, protocol=protocol)
        found = (config.learning_rate, config.weight_decay, config.classes_per_batch)
        assert (*found, config.steps_per_evaluation, config.patience) == expected
        assert (config.samples_per_class, config.embedding_dim, config.plateau_patience) == (4, 512, 4)
        assert (config.monitor, config.normalization, config.beta_2) == ("P@1", "unit", 0.99)
        assert config.held_out_fraction == (0.1 if protocol == "held_out" else None)
    assert config.negative_margin == resolve(dataset, "c2", "gap", "thesis", "full", {}).negative_margin


def test_proxy_losses_take_one_image_a_class_and_never_more_classes_than_there_are():
    for dataset, protocol, classes in [
        ("sop", "conventional", 128),
        ("cub200", "conventional", 100),
        ("cars196", "conventional", 96),
        ("cub200", "held_out", 90),
        ("cars196", "held_out", 86),
    ]:
        config = conventional(dataset, "panchor", protocol=protocol)
        assert (config.classes_per_batch, config.samples_per_class) == (classes, 1)


def test_a_protocol_is_part_of_the_identity_and_the_fair_one_leaves_it_as_it_was():
    fair = resolve("glyphs", "c2", "gap", "thesis", "full", {})
    assert "protocol" not in fair.identity("data")
    assert fair.monitor == "MAP@R"
    hashes = {dataclasses.replace(fair, protocol=name).hash("data") for name in (None, "conventional", "held_out")}
    assert len(hashes) == 3
    chapter_3 = conventional("sop", "c2", method="ccp")
    assert (chapter_3.chapter, chapter_3.normalization, chapter_3.projection_patience) == (3, "clip", 3)
    for overrides in ({"num_folds": 5}, {"held_out_fraction": 0.2}):
        with pytest.raises(InvalidInput, match=f"--{next(iter(overrides))} would have no effect"):
            conventional("sop", "c2", **overrides)
    with pytest.raises(InvalidInput, match="--held_out_fraction: received 1.0"):
        conventional("sop", "c2", protocol="held_out", held_out_fraction=1.0)
    with pytest.raises(InvalidInput, match="protocol: .*'fare'.*conventional, held_out"):
        conventional("sop", "c2", protocol="fare")


@pytest.mark.parametrize("budget", ["smoke", "demo"])
def test_short_budgets_have_a_shorter_plateau(budget):
    config = resolve("glyphs", "c2", "gap+gmp", "thesis", budget, {}, protocol="conventional")
    assert config.plateau_patience == 2
    assert config.max_steps // config.steps_per_evaluation == {"smoke": 2, "demo": 10}[budget]


def test_from_scratch_nothing_is_selected_before_the_memory_or_the_proxies_are_on():
    def start(dataset, loss, method="plain", budget="demo", **overrides):
        return resolve(dataset, loss, "gap", "thesis", budget, overrides, method).selection_start

    assert start("glyphs", "c1", "ccp") == 400
    assert start("glyphs", "c1+xbm") == 200
    assert start("glyphs", "c1+xbm", xbm_start=600) == 600
    assert start("glyphs", "c1+xbm", budget="full") == 1000
    assert start("glyphs", "c1") is None
    assert start("sop", "c1+xbm") is start("sop", "c1", "ccp") is None  # as printed: ImageNet weights
    assert start("glyphs", "c1+xbm", max_steps=100) is None  # it never is
    assert start("glyphs", "c1", selection_start=200) == 200
    with pytest.raises(InvalidInput, match=r"--selection_start=100 leaves nothing to select in --max_steps=100"):
        start("glyphs", "c1", selection_start=100, max_steps=100)


C2 = {"sop": (0.2858, 0.5130), "inshop": (0.2858, 0.5130), "cub200": (0.0, 0.3841), "cars196": (0.2652, 0.5409)}
TRIPLET = {"sop": 0.0451, "inshop": 0.0451, "cub200": 0.0961, "cars196": 0.1190}
MS = {"sop": (2, 40, 0.5), "inshop": (8.49, 57.38, 0.41), "cub200": (2, 40, 0.5), "cars196": (14.35, 75.83, 0.66)}
SOFT_TRIPLE = {
    "sop": (4, 100, 47.9, 0.2, 0.3145),
    "inshop": (4, 20, 0.1, 0.2, 0.01),
    "cub200": (10, 20, 0.1, 0.2, 0.01),
    "cars196": (10, 17.69, 19.18, 0.0669, 0.3588),
}


@pytest.mark.parametrize("dataset", C2)
def test_values_are_the_printed_ones(dataset):
    losses = {loss: loss_values(loss, dataset) for loss in ("c2", "triplet", "ms", "softtriple")}
    assert losses["c2"] == dict(zip(("positive_margin", "negative_margin"), C2[dataset]))
    assert losses["triplet"] == {"margin": TRIPLET[dataset]}
    assert losses["ms"] == dict(zip(("ms_alpha", "ms_beta", "ms_base"), MS[dataset]))
    names = ("softtriple_scale", "softtriple_gamma", "softtriple_tau", "softtriple_margin")
    assert losses["softtriple"] == dict(zip(("centers_per_class", *names), SOFT_TRIPLE[dataset]))
