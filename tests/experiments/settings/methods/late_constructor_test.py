"""Constructors as their source describes them."""

import inspect
import typing

import pytest

from common import losses
from common.lazy_names import module_of
from experiments.settings.methods.late_constructor import late_constructor

OF_THEIR_OWN = [
    name
    for name in losses.__all__
    if inspect.isclass(getattr(losses, name)) and "__init__" in vars(getattr(losses, name))
]


@pytest.mark.parametrize("name", OF_THEIR_OWN)
def test_signature_and_docstring_are_those_of_the_class(name):
    loss, late = getattr(losses, name), late_constructor("common.losses", name)
    stated = list(inspect.signature(loss.__init__).parameters.values())[1:]
    assert list(inspect.signature(late).parameters.values()) == stated
    assert inspect.getdoc(late) == inspect.getdoc(loss)
    assert late.__module__ == loss.__module__ == module_of("common.losses", name)


def test_types_can_be_looked_up():
    late = late_constructor("common.losses", "SupervisedContrastiveLoss")
    assert typing.get_type_hints(late) == {"temperature": float, "anchors": str, "kwargs": typing.Any}


def test_it_makes_the_class():
    loss = late_constructor("common.losses", "SupervisedContrastiveLoss")(0.2, anchors="references")
    assert isinstance(loss, losses.SupervisedContrastiveLoss)
    assert (loss.temperature, loss.anchors) == (0.2, "references")


def test_a_default_that_is_no_literal_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "planted_losses"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from typing import TYPE_CHECKING\nfrom common.lazy_names import import_when_used\n"
        "if TYPE_CHECKING:\n    from planted_losses.odd import Odd\n__all__ = []\nimport_when_used(__name__)\n"
    )
    (folder / "odd.py").write_text("class Odd:\n    def __init__(self, size: int = SIZE) -> None: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="malformed node"):
        late_constructor("planted_losses", "Odd")
