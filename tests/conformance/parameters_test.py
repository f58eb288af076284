"""What the annotations of constructors forbid: each class whose constructor is `checked` refuses it by name."""

import importlib
import inspect

import pytest

from common.errors import InvalidInput
from common.parameters import hint_of

PACKAGES = ("common.losses", "common.pooling", "common.references", "gsp_dml", "milbich_dml")


def exported_classes():
    """Those whose constructor is decorated, or inherited from one that is."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        for kind in (getattr(package, name) for name in package.__all__):
            is_made = inspect.isclass(kind) and not inspect.isabstract(kind)
            if is_made and hasattr(kind.__init__, "__wrapped__"):
                yield kind


def hints_of(kind):
    """For each parameter with a range or choices what its annotation says, and the names of those that are required."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    namespace = kind.__init__.__wrapped__.__globals__
    hints = {each.name: hint_of(each.annotation, namespace) for each in parameters}
    is_named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    required = [each.name for each in parameters if each.default is each.empty and each.kind in is_named]
    return {name: hint for name, hint in hints.items() if hint.within or (hint.choices and not hint.mixed)}, required


def wrong_values(hint):
    """A choice that is none; beside the ends of a range; what is no number; of whole numbers a broken one."""
    if hint.choices:
        return ["nonsense"]
    ends = ((hint.within.low, -1, hint.within.low_included), (hint.within.high, 1, hint.within.high_included))
    beside = [end + outwards * is_included for end, outwards, is_included in ends if abs(end) < float("inf")]
    return [*beside, float("nan"), "text", *([2.5] if hint.kind is int else [])]


@pytest.mark.parametrize("kind", exported_classes(), ids=lambda kind: kind.__name__)
def test_what_an_annotation_forbids_is_refused_by_name(kind):
    hints, required = hints_of(kind)
    for name, hint in hints.items():
        for wrong in wrong_values(hint):
            with pytest.raises(InvalidInput, match=f"^Invalid {name}: received .*expected "):
                kind(**{**dict.fromkeys(required, 3), name: wrong})


def test_there_are_many_such_parameters():
    assert sum(len(hints_of(kind)[0]) for kind in exported_classes()) > 120
