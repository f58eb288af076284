import math

import pytest

from common.errors import InvalidInput
from experiments.recipes import resolve
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
        ("budget", "budget"),
        ("max_steps=10..20", "max_steps"),
        ("seed=1|2", "seed"),
        ("num_folds=2..4", "num_folds"),
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


def test_a_name_stands_once():
    with pytest.raises(InvalidInput, match="learning_rate more than once"):
        parse_space(["learning_rate", "learning_rate=1e-4..1e-3"], configuration())


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
