import math

import pytest
import tensorflow as tf

from common.errors import InvalidInput
from experiments.parts.registry import LOSSES
from experiments.recipes import resolve
from experiments.settings.loss_building import build_loss
from experiments.tuning.search_space import Parameter, check_every_parameter_is_used, parse_space


def configuration(loss="c2", pooling="gap"):
    return resolve("glyphs", loss, pooling, "thesis", "smoke", {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("learning_rate=1e-4..1e-2:log", Parameter("learning_rate", float, 1e-4, 1e-2, log=True)),
        ("learning_rate = 1e-4..1e-2", Parameter("learning_rate", float, 1e-4, 1e-2)),
        ("samples_per_class=2..8", Parameter("samples_per_class", int, 2, 8)),
        ("samples_per_class=2|4|8", Parameter("samples_per_class", int, choices=(2, 4, 8))),
        ("sampler=rounds|spc", Parameter("sampler", str, choices=("rounds", "spc"))),
        ("warm_up_trains_all=false|true", Parameter("warm_up_trains_all", bool, choices=(False, True))),
        ("learning_rate", Parameter("learning_rate", float, 1e-4, 1e-2, log=True)),
        ("samples_per_class", Parameter("samples_per_class", int, 1, 40, log=True)),
        ("frozen_batch_norm", Parameter("frozen_batch_norm", bool, choices=(False, True))),
    ],
)
def test_a_parameter_is_read(text, expected):
    (parameter,) = parse_space([text], configuration()).values()
    assert (parameter.name, parameter.kind, parameter.log) == (expected.name, expected.kind, expected.log)
    assert parameter.choices == expected.choices
    assert (parameter.low, parameter.high) == pytest.approx((expected.low, expected.high))


def test_a_share_is_searched_whole():
    share = parse_space(["transport_ratio"], configuration(pooling="gsp"))["transport_ratio"]
    assert 0 <= share.low < 0.01
    assert 0.99 < share.high <= 1
    assert not share.log


@pytest.mark.parametrize(
    ("text", "received"),
    [
        ("learning_rat", "learning_rat"),
        ("dataset=glyphs|sop", "dataset"),
        ("seed=1|2", "seed"),
        ("learning_rate=1..x", "x"),
        ("learning_rate=1e-2..1e-4", "1e-2..1e-4"),
        ("learning_rate=1e-2..1e-2", "1e-2..1e-2"),
        ("learning_rate=-1..1", "-1"),
        ("learning_rate=0.1..nan", "nan"),
        ("learning_rate=1e-4..1e-2:ln", "ln"),
        ("learning_rate=1e-4", "1e-4"),
        ("weight_decay=0..1:log", "0..1"),
        ("samples_per_class=2..4.5", "4.5"),
        ("sampler=rounds..spc", "rounds..spc"),
        ("frozen_batch_norm=yes|no", "yes"),
        ("clip_norm", "clip_norm"),  # 0 in the recipe: ten times either way is nothing
    ],
)
def test_a_wrong_parameter_is_refused(text, received):
    with pytest.raises(InvalidInput, match="--parameters") as refused:
        parse_space([text], configuration())
    assert received in str(refused.value)


@pytest.mark.parametrize("texts", [["learning_rate", "learning_rate=1e-4..1e-3"], ["own", "own"]])
def test_a_name_stands_once(texts):
    with pytest.raises(InvalidInput, match=f"{texts[0]} more than once"):
        parse_space(texts, configuration())


@pytest.mark.parametrize("loss", LOSSES)
def test_own_settings_of_each_loss(loss):
    config = configuration(loss)
    space = parse_space(["own"], config)
    print(
        loss, *(f"{name} {getattr(config, name):g} [{each.low:.4g}, {each.high:.4g}]" for name, each in space.items())
    )
    rates = {"learning_rate", "proxy_multiplier"} if LOSSES[loss].has_proxies else {"learning_rate"}
    assert rates <= space.keys()
    assert (space.keys() == rates) == (loss in ("histogram", "fastap"))  # these have counts alone
    embeddings = tf.math.l2_normalize(tf.random.stateless_normal([24, config.embedding_dim], (1, 2)), axis=-1)
    # Neighbours of a class at about .5 of one another, and another class nearby.
    centers = tf.repeat(embeddings[:6] + 0.5 * embeddings[:1], 4, axis=0)
    embeddings = tf.math.l2_normalize(centers + 0.8 * embeddings, axis=-1)
    labels = tf.repeat(tf.range(6), 4)
    for name, each in space.items():
        assert each.low < getattr(config, name) < each.high
        assert each.high <= 4 * getattr(config, name)
        ends = [resolve("glyphs", loss, "gap", "thesis", "smoke", {name: end}) for end in (each.low, each.high)]
        if name not in rates:
            tf.random.set_seed(0)
            low, high = (float(build_loss(end, num_classes=6)(embeddings, labels)) for end in ends)
            assert math.isfinite(low)
            assert abs(low - high) > 1e-4 * abs(low), name


@pytest.mark.parametrize(
    ("loss", "name", "high"),
    [("c1", "margin", 1.0), ("c2", "negative_margin", 2.0), ("ms", "ms_base", 1.0), ("arcface", "margin", math.pi / 2)],
)
def test_own_margins_end_where_unit_vectors_end(loss, name, high):
    assert parse_space(["own"], configuration(loss))[name].high == pytest.approx(high)
    free = resolve("glyphs", loss, "gap", "thesis", "smoke", {"normalization": "none", "learning_rate": 0.1})
    space = parse_space(["own"], free)
    assert space[name].high == pytest.approx(high if loss == "arcface" else 4 * getattr(free, name))
    assert "learning_rate" not in space  # it is given


def test_other_names_go_beside_and_over_own():
    texts = ["own", "learning_rate=1e-4..1e-2", "transport_ratio"]
    spaces = {pooling: parse_space(texts, configuration(pooling=pooling)) for pooling in ("gap", "gsp")}
    check_every_parameter_is_used(texts, spaces)
    assert [*spaces["gsp"]] == ["learning_rate", "positive_margin", "negative_margin", "transport_ratio"]
    assert spaces["gap"]["learning_rate"] == Parameter("learning_rate", float, 1e-4, 1e-2)


def test_a_method_has_the_parameters_that_it_can_use():
    texts = ["learning_rate", "transport_ratio"]
    spaces = {pooling: parse_space(texts, configuration(pooling=pooling)) for pooling in ("gap", "gsp")}
    assert list(spaces["gap"]) == ["learning_rate"]
    assert list(spaces["gsp"]) == texts
    check_every_parameter_is_used(texts, spaces)
    with pytest.raises(InvalidInput, match="received 'xbm_batches', expected settings of gap, gsp"):
        check_every_parameter_is_used([*texts, "xbm_batches=1|2"], spaces)
    with pytest.raises(InvalidInput, match="at least one setting of gap"):
        check_every_parameter_is_used(["transport_ratio"], {"gap": {}, "gsp": spaces["gsp"]})


def test_values_at_an_end_of_their_range():
    log, even = Parameter("a", float, 1e-4, 1e-2, log=True), Parameter("b", float, 0.0, 1.0)
    assert [log.at_edge(value) for value in (1e-4, 1.2e-4, 2e-4, 1e-3, 9.9e-3)] == [True, True, False, False, True]
    assert [even.at_edge(value) for value in (0.0, 0.04, 0.06, 0.5, 0.99)] == [True, True, False, False, True]
    assert not Parameter("c", int, choices=(1, 2)).at_edge(1)


def test_what_can_be_tried():
    assert Parameter("a", float, 0.1, 1.0).holds(0.1)
    assert not Parameter("a", float, 0.1, 1.0).holds(math.nextafter(0.1, 0))
    assert not Parameter("a", float, 0.1, 1.0).holds(None)
    assert Parameter("a", bool, choices=(False, True)).holds(False)
