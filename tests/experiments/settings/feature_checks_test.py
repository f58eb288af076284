"""Features and PADS beside what they do not go with: refused by name, with what to give instead."""

import pytest

from common.errors import InvalidInput
from experiments.settings import build
from experiments.settings.recipes import resolve
from tests.command_line import check_clean_failure, run_module

DIVA = "margin+distance+shared+intra+dance"
MIRRORED = {"strategy": "mirrored", "replicas": 2}


def config_of(loss, method="plain", pooling="gap", **overrides):
    return resolve("glyphs", loss, pooling, "thesis", "smoke", overrides, method)


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        ("margin+pads", {"method": "ccp"}, r"--method=ccp: received margin\+pads.*Remove one of the two"),
        ("c2+shared", {"method": "ccp", "feature_schedule": "in_turn"}, "--method=ccp with --feature_schedule=in_turn"),
        ("pnca+pads", {}, r"--loss: received 'pnca\+pads'.*Proxy losses take the features alone"),
        ("triplet+shared", {"shared_negatives": "random"}, "--shared_negatives=random over the triplet loss"),
        ("triplet+distance+intra", {}, "`intra` over the triplet loss.*Expected the margin loss"),
        ("margin+intra", {"samples_per_class": 2}, "received --samples_per_class=2.*--samples_per_class=4"),
        ("margin+intra", {"sampler": "spc_r"}, "--sampler=spc_r"),
        (DIVA, {"feature_schedule": "in_turn"}, "--feature_schedule: received in_turn"),
        ("margin+groups+intra", {"feature_schedule": "in_turn"}, "--feature_schedule: received in_turn"),
        ("c2+groups", {"method": "ccp", "feature_schedule": "in_turn"}, "--method=ccp with --feature_schedule=in_turn"),
        ("margin+groups", {"feature_schedule": "in_turn", "jit_compile": True}, "--jit_compile cannot"),
        ("margin+groups", MIRRORED, "--strategy=mirrored does not go with margin.groups"),
        ("margin+groups", {"num_groups": 1}, "--num_groups: received 1"),
        ("margin+groups", {"group_epochs": 0}, "--group_epochs: received 0"),
        ("margin+groups", {"group_by": "class"}, "--group_by: received 'class'"),
        ("margin+shared", {"num_groups": 5}, "--num_groups would have no effect"),
        ("margin+shared", {"feature_schedule": "in_turn", "jit_compile": True}, "--jit_compile cannot"),
        ("margin+shared+intra", {"single_encoder": True}, "--single_encoder"),
        ("margin+shared", {"single_encoder": True, "decorrelation": 2.0}, "--decorrelation=0"),
        (
            "margin+shared",
            {"shared_negatives": "random", "shared_positives": "nearest"},
            "--shared_negatives=random with --shared_positives=nearest",
        ),
        ("margin+dance", {"crop": "none"}, "--crop=none makes alike"),
        ("margin+dance", {"views": 1}, "--views=1 makes alike"),
        ("margin+dance", {"trained_from": "head", "views": 1}, "--views=1 makes alike"),
        ("margin+dance", {"pooling": "gsp"}, "Give --zero_shot_weight=0"),
        ("margin+dance", MIRRORED, "--strategy=mirrored does not go with margin"),
        ("margin+pads", MIRRORED, "--strategy=mirrored does not go with the miner pads"),
        (DIVA, {"embedding_dim": 3}, "--embedding_dim: received 3 for the 4 features"),
        ("margin+pads", {"pads_start": "near"}, "--pads_start: received 'near'"),
        ("margin+pads", {"pads_start": "1.5,1.6"}, "--pads_start.*centre of one of 30 bins"),
        ("margin+pads", {"pads_low": 1.4}, "--pads_low: received 1.4, expected less than --pads_high=1.4"),
        ("margin+shared", {"feature_weight": 0.5}, "--feature_weight would have no effect"),
        ("margin+shared", {"shared_triplets": "permuted", "shared_negatives": "random"}, "--shared_negatives would"),
        ("margin+intra", {"decorrelation": 0.0, "decorrelation_reduction": "sum"}, "--decorrelation_reduction would"),
        ("margin+pads", {"pads_start": "all", "pads_outside": 0.1}, "--pads_outside would have no effect"),
        ("margin", {"decorrelation": 1.0}, "--decorrelation would have no effect"),
    ],
)
def test_what_does_not_go_together_is_refused(loss, given, message):
    with pytest.raises(InvalidInput, match=message):
        config_of(loss, **given)


def test_poolings_that_concatenate_have_no_slices():
    with pytest.raises(InvalidInput, match="--pooling: received .netvlad_8x16 with --loss=margin.shared"):
        build.build_head(config_of("margin+shared", pooling="netvlad_8x16"))


@pytest.mark.parametrize(
    ("loss", "given"),
    [
        ("margin+pads+xbm", {}),
        ("triplet+pads+shared", {}),
        ("c2+shared", {"method": "ccp"}),
        ("c2+groups", {"method": "ccp"}),
        ("c1+xbm+groups+intra+dance", {}),
        ("margin+groups", {"pooling": "gsp"}),
        ("c1+xbm+shared+dance", {}),
        (DIVA, {"pooling": "gsp", "zero_shot_weight": 0.0}),
        ("margin+dance", {"trained_from": "head", "views": 4}),
        ("margin+shared", {"single_encoder": True}),
        ("margin+pads", {"pads_start": "all"}),
    ],
)
def test_what_goes_together_passes(loss, given):
    assert config_of(loss, **given).loss == loss


def test_a_command_ends_with_code_2_before_it_makes_anything(tmp_path):
    places = [f"--runs_dir={tmp_path / 'runs'}", f"--cache_dir={tmp_path / 'cache'}"]
    refused = run_module("experiments.fair_eval", "--methods=triplet+distance+intra+gap", *places)
    check_clean_failure(refused, "`intra` over the triplet loss", "margin+distance+intra")
    assert list(tmp_path.iterdir()) == []
