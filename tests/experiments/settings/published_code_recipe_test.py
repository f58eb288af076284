"""`--recipe=published_code` against the authors' code, switch by switch; the values below are read in that code."""

import itertools
import pathlib
import re

import pytest

from common.errors import InvalidInput
from experiments.parts.datasets import DATASETS
from experiments.recipes import resolve
from experiments.settings.parts import all_settings

DOCUMENTATION = pathlib.Path(__file__).resolve().parents[3] / "docs" / "thesis.md"
BENCHMARKS = ("cub200", "cars196", "sop", "inshop")

# (where in the authors' code, method, what it is asked with, values). A method: data set, loss, pooling.
FAIR = [
    ("configs/optimizers.py", ("cub200", "c2", "gap"), {}, {"beta_2": 0.999}),
    ("configs/default.py", ("cub200", "c2", "gap"), {}, {"clip_norm": 10.0, "clip_value": 10.0, "weight_decay": 1e-4}),
    ("datasets/samplers.py", ("cub200", "c2", "gap"), {}, {"sampler": "m_per_class", "classes_per_batch": 8}),
    ("datasets/samplers.py", ("sop", "pnca", "gsp"), {}, {"sampler": "m_per_class", "classes_per_batch": 32}),
    ("datasets/dataset_base.py", ("sop", "c2", "gap"), {}, {"fold_order": "backward", "num_folds": 4}),
    ("utilities/dataset_utils.py", ("sop", "c2", "gap"), {}, {"crop": "published_code", "image_size": 227}),
    ("utilities/dataset_utils.py", ("sop", "c2", "gap"), {}, {"evaluation_antialias": False}),
    ("utilities/dataset_utils.py", ("sop", "c2", "gap"), {}, {"input_mean": "imagenet"}),
    ("utilities/dataset_utils.py", ("sop", "c2", "gap"), {"backbone": "resnet50"}, {"input_mean": "caffe"}),
    ("models/backbones/bn_inception.py", ("sop", "c2", "gap"), {}, {"frozen_batch_norm": True}),
    ("trainModel.py", ("cub200", "pnca", "gap"), {}, {"warm_up_epochs": 0, "warm_up_steps": 100}),
    ("trainModel.py", ("sop", "panchor", "gap"), {}, {"warm_up_epochs": 0, "warm_up_steps": 1000}),
    ("trainModel.py", ("sop", "pnca", "gap"), {"chapter": 3}, {"warm_up_steps": 250}),
    ("trainModel.py", ("sop", "pnca", "gap"), {}, {"samples_per_class": 1, "proxy_multiplier": 100.0}),
    ("configs/dml_small.yaml", ("cub200", "pnca", "gap"), {}, {"warm_up_trains_all": False, "patience": 15}),
    ("configs/dml_large.yaml", ("sop", "c2", "gap"), {}, {"steps_per_evaluation": 1000, "patience": 10}),
    ("utilities/proxy_utils.py", ("sop", "panchor", "gap"), {}, {"proxy_initializer": "he_normal_over_proxies"}),
    ("losses/proxy_nca.py", ("sop", "pnca", "gap"), {"chapter": 3}, {"temperature": 0.11}),
    ("losses/xbm.py", ("sop", "c1+xbm", "gap"), {}, {"xbm_fills_first": True, "xbm_holds_batch": True}),
    ("trainModel.py", ("sop", "c1+xbm", "gap"), {}, {"xbm_batches": 1400, "xbm_start": 1000}),
    ("trainModel.py", ("inshop", "c1+xbm", "gap"), {}, {"xbm_batches": 400}),
    ("configs/dml_small.yaml", ("cars196", "c1+xbm", "gap"), {}, {"xbm_batches": 25, "xbm_start": 1000}),
    ("layers/partial_transport.py", ("cub200", "c2", "gsp"), {}, {"solver": "fixed_point", "num_iterations": 100}),
    ("configs/dml_small.yaml", ("cub200", "c2", "gsp"), {}, {"num_prototypes": 64, "smoothing": 5.0}),
    ("configs/dml_large.yaml", ("sop", "c2", "gsp"), {}, {"num_prototypes": 128, "transport_ratio": 0.3}),
    ("configs/dml_default.yaml", ("sop", "c2", "gsp"), {}, {"gsp_memory_size": 1024, "gsp_memory_delay": 0}),
    ("trainModel.py", ("cub200", "pnca", "gsp"), {}, {"gsp_memory_delay": 100, "smoothing": 0.5}),
    ("trainModel.py", ("sop", "panchor", "gsp"), {}, {"gsp_memory_delay": 1000, "smoothing": 0.5}),
    ("losses/zsr_loss.py", ("sop", "pnca", "gsp"), {}, {"label_initializer": "he_normal_over_proxies"}),
    ("losses/zsr_loss.py", ("sop", "c2", "gsp"), {}, {"label_initializer": "he_normal_over_proxies"}),
    ("losses/zsr_loss.py", ("sop", "c2", "gsp"), {}, {"zero_shot_scale": 9.5, "zero_shot_reduction": "mean"}),
    ("losses/zsr_loss.py", ("sop", "c2", "gsp"), {}, {"zero_shot_halves": "even_odd", "zero_shot_ridge": 0.05}),
    ("configs/dml_large.yaml", ("sop", "c2", "gsp"), {}, {"zero_shot_weight": 0.1, "normalization": "unit"}),
]
CCP = [
    ("losses/ccp/loss.py", ("cub200", "c2", "gap"), {}, {"ccp_in_batch_weight": 0.1, "ccp_lambda": 2e-4}),
    ("losses/ccp/callback.py", ("cub200", "c2", "gap"), {}, {"ccp_first_lambda": 0.0, "ccp_continue_from": "last"}),
    ("losses/ccp/callback.py", ("cub200", "c2", "gap"), {}, {"ccp_first_centers": "origin", "ccp_reads_late": True}),
    ("losses/ccp/callback.py", ("sop", "c2", "gap"), {}, {"projection_patience": 3, "proxy_multiplier": 1.0}),
    ("losses/base_losses.py", ("cub200", "triplet", "gap"), {}, {"ccp_anchors": "embeddings"}),
    ("configs/dml_small.yaml", ("cub200", "c2", "gap"), {}, {"proxies_per_class": 8, "pool_size": 12, "patience": 60}),
    ("configs/dml_large.yaml", ("sop", "c2", "gap"), {}, {"proxies_per_class": 4, "pool_size": 7, "patience": 60}),
    ("configs/dml_large.yaml", ("sop", "c2", "gap"), {}, {"normalization": "clip", "steps_per_evaluation": 250}),
]
RESNET = {"backbone": "resnet50"}
CONVENTIONAL = [
    ("bninception_small.yaml", ("cars196", "c1+xbm", "gap+gmp"), {}, {"xbm_batches": 50, "xbm_start": 1000}),
    ("bninception_small.yaml", ("cub200", "c1+xbm", "gap+gmp"), {}, {"beta_2": 0.999, "clip_norm": 10.0}),
    ("bninception_small.yaml", ("cub200", "c1+xbm", "gap+gmp"), {}, {"fold_order": "forward", "plateau_patience": 4}),
    ("bninception_large.yaml", ("sop", "c1+xbm", "gap+gmp"), {}, {"xbm_batches": 1400, "patience": 10}),
    ("resnet50_small.yaml", ("cars196", "c1+xbm", "gap+gmp"), RESNET, {"xbm_batches": 25, "xbm_start": 100}),
    ("bninception_small.yaml", ("cars196", "c2", "gap+gmp"), {}, {"learning_rate": 1e-5, "plateau_patience": 4}),
    ("bninception_large.yaml", ("sop", "c2", "gap+gmp"), {}, {"learning_rate": 1e-4, "plateau_patience": 3}),
    ("resnet50_large.yaml", ("sop", "c1+xbm", "gap+gmp"), RESNET, {"xbm_batches": 1400, "weight_decay": 4e-4}),
    ("trainModel.py", ("inshop", "c1+xbm", "gap+gmp"), RESNET, {"xbm_batches": 400, "classes_per_batch": 28}),
    ("conventional_*.yaml", ("cars196", "c2", "gap+gmp"), {}, {"positive_margin": 0.0, "negative_margin": 1.0}),
    ("conventional_*.yaml", ("sop", "triplet", "gap+gmp"), {}, {"margin": 0.2, "samples_per_class": 4}),
    ("conventional_*.yaml", ("cars196", "ms", "gap+gmp"), {}, {"ms_alpha": 2.0, "ms_beta": 40.0, "ms_base": 0.5}),
    ("conventional_*.yaml", ("sop", "pnca", "gap+gmp"), {}, {"warm_up_trains_all": True, "warm_up_steps": 250}),
    ("trainModel.py", ("sop", "pnca", "gmp+gsp"), {}, {"gsp_memory_delay": 250, "warm_up_trains_all": True}),
    ("trainModel.py", ("cub200", "panchor", "gap+gmp"), {}, {"classes_per_batch": 100, "samples_per_class": 1}),
    ("conventional_*.yaml", ("sop", "c2", "gap+gmp"), {}, {"warm_up_trains_all": False, "embedding_dim": 512}),
]
CONVENTIONAL_CCP = [
    ("bninception_large.yaml", ("inshop", "c2", "gap+gmp"), {}, {"patience": 15}),
    ("resnet50_large.yaml", ("inshop", "c2", "gap+gmp"), RESNET, {"patience": 10}),
]
CASES = [
    *((row, "plain", None) for row in FAIR),
    *((row, "ccp", None) for row in CCP),
    *((row, "plain", "conventional") for row in CONVENTIONAL),
    *((row, "ccp", "conventional") for row in CONVENTIONAL_CCP),
]


@pytest.mark.parametrize(("row", "way", "protocol"), CASES, ids=lambda part: part[0] if type(part) is tuple else part)
def test_the_recipe_does_as_the_published_code(row, way, protocol):
    _, method, given, expected = row
    config = resolve(*method, "published_code", "full", given, way, protocol)
    assert {name: getattr(config, name) for name in expected} == expected


def methods():
    for dataset, protocol in itertools.product((*BENCHMARKS, "glyphs", "cifar_collage"), (None, "conventional")):
        for loss, way in itertools.product(("c1", "c2", "ms", "triplet"), ("plain", "ccp")):
            yield dataset, loss, "gsp", way, protocol
        for loss in ("c1+xbm", "pnca", "panchor", "softtriple"):
            yield dataset, loss, "gmp+gsp", "plain", protocol


def differing_fields() -> set[str]:
    """All fields in which the recipes differ for any method, backbone and chapter."""
    names = set()
    for dataset, loss, pooling, way, protocol in methods():
        for given in ({"chapter": 3}, {"chapter": 5}, {"chapter": 5, **RESNET}):
            one, other = (
                resolve(dataset, loss, pooling, recipe, "full", given, way, protocol)
                for recipe in ("thesis", "published_code")
            )
            names |= {each.name for each in all_settings() if getattr(one, each.name) != getattr(other, each.name)}
    return names - {"recipe"}


def test_the_documentation_names_every_switch_and_no_other():
    table = DOCUMENTATION.read_text().split("## The published code")[1].split("\n### ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == differing_fields()


@pytest.mark.parametrize(
    ("method", "overrides"),
    [
        (("sop", "pnca", "gap"), {"label_initializer": "he_normal"}),
        (("sop", "pnca", "gap"), {"input_mean": "caffe", "backbone": "resnet50"}),
        (("glyphs", "pnca", "gap"), {"evaluation_antialias": True}),
        (("sop", "c2", "gap"), {"warm_up_trains_all": True}),
        (("sop", "pnca", "gap"), {"warm_up_trains_all": True, "warm_up_epochs": 0}),
    ],
)
def test_a_switch_without_effect_is_refused(method, overrides):
    with pytest.raises(InvalidInput, match=f"--{next(iter(overrides))} would have no effect"):
        resolve(*method, "thesis", "full", overrides)


@pytest.mark.parametrize("budget", ["smoke", "demo"])
def test_short_budgets_shorten_the_warm_up_and_what_waits_for_it(budget):
    for dataset in (name for name, traits in DATASETS.items() if traits.photographs):
        config = resolve(dataset, "pnca", "gsp", "published_code", budget, {})
        assert 0 < config.warm_up_steps == config.gsp_memory_delay <= config.steps_per_evaluation
