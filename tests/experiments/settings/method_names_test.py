import itertools
import pickle
import re

import pytest

from common.errors import InvalidInput
from experiments.settings import build
from experiments.settings.method_names import FEATURES, parse_loss, parse_method
from experiments.settings.run_settings import method_name

BOTH = {"shared", "groups"}
SUBSETS = [words for count in range(4) for words in itertools.combinations(FEATURES[1:], count) if not {*words} >= BOTH]


@pytest.mark.parametrize("words", SUBSETS, ids="+".join)
@pytest.mark.parametrize("start", ["margin+distance+rho+xbm", "c1+xbm", "margin+pads", "ms", "pnca"])
def test_names_are_read_as_they_are_written(start, words):
    loss = "+".join([start, *words])
    found = parse_loss(loss)
    assert (found.base, found.features) == (start.split("+")[0], words)
    assert (found.memory, found.miner == "pads") == (start.endswith("xbm"), start.endswith("pads"))
    assert vars(pickle.loads(pickle.dumps(found))) == vars(found)  # as worker processes receive it
    for method in ("plain", "ccp"):
        assert parse_method(method_name(loss, method, "gmp+gsp")) == (loss, method, "gmp+gsp")


@pytest.mark.parametrize(
    "name",
    [
        *("margin+intra+shared", "margin+shared+shared", "margin+dance+xbm", "pnca+pads+shared", "pnca+distance"),
        *("margin+rho", "margin+hard", "margin+distance+rho+rho", "nothing+xbm"),
    ],
)
def test_parts_that_do_not_fit_or_stand_in_another_order_are_refused(name):
    message = r"\[\+shared or \+groups\]\[\+intra\]\[\+dance\] .*a miner \(random, semihard, softhard, distance"
    with pytest.raises(InvalidInput, match=message):
        build.check_loss_name(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("multisimilarity", "ms"), ("Multi-Similarity", "ms"), ("MultiSimilarityLoss", "ms")),
        *(("proxyanchor", "panchor"), ("proxynca", "pnca"), ("proxynca++", "pnca"), ("PNPLoss", "pnp")),
        *(("contrastive", "c2"), ("xbm", "c2+xbm"), ("multi-similarity+xbm", "ms+xbm"), ("triplett", "triplet")),
    ],
)
def test_usual_names_of_losses_suggest_ours(name, meant):
    build.check_loss_name(meant)
    with pytest.raises(InvalidInput, match=rf"Did you mean {re.escape(meant)}\?$"):
        build.check_loss_name(name)


@pytest.mark.parametrize(("name", "meant"), [("gps", "gsp"), ("GeM", "gemean"), ("avg", "gap"), ("gapp", "gap")])
def test_usual_names_of_poolings_suggest_ours(name, meant):
    with pytest.raises(InvalidInput, match=f"Did you mean {meant}\\?$"):
        build.check_pooling_name(name)


def test_every_other_name_leads_to_a_pooling():
    assert {*build._OTHER_NAMES.values()} <= build.POOLINGS.keys()


def test_pairs_cannot_be_switched():
    assert parse_loss("ms+multisimilarity+xbm").miner == "multisimilarity"
    with pytest.raises(InvalidInput, match=r"received 'ms\+multisimilarity\+rho', expected rho after a miner of tri"):
        parse_loss("ms+multisimilarity+rho")


def test_heads_are_the_only_features():
    for loss in ("margin+distance+rho+xbm+heads", "pnca+heads"):
        assert parse_loss(loss).features == ("heads",)
    for loss in ("margin+heads+shared", "margin+pads+heads"):
        with pytest.raises(InvalidInput, match="expected heads as the only features, without the miner pads"):
            parse_loss(loss)


def test_distillation_stands_behind_the_memory_and_alone():
    for loss in ("margin+distance+rho+xbm+s2sd", "pnca+s2sd"):
        found = parse_loss(loss)
        assert (found.distilled, found.memory, found.features) == (True, "xbm" in loss, ())
        assert parse_method(f"{loss}+gap+gmp") == (loss, "plain", "gap+gmp")
    for loss in ("margin+s2sd+shared", "margin+pads+s2sd"):
        with pytest.raises(InvalidInput, match="expected s2sd without other features and without the miner pads"):
            parse_loss(loss)


def test_groups_stand_where_shared_features_would():
    with pytest.raises(
        InvalidInput, match=r"--loss: received 'margin\+shared\+groups', expected either shared or groups"
    ):
        parse_loss("margin+shared+groups")


@pytest.mark.parametrize("name", ["margin+dance+shared+gap", "c2", "c2+xbm", "c2+ccp", "margin+distance+rho", ""])
def test_a_name_without_a_pooling_is_refused(name):
    with pytest.raises(InvalidInput, match=f"method: received '{re.escape(name)}', expected LOSS"):
        parse_method(name)
