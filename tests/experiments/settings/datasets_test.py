import pytest

from common.errors import InvalidInput
from experiments.parts.datasets import DATASETS, OF_CUSTOM_DATA, traits_of
from experiments.settings.run_settings import ProtocolSettings


def test_settings_of_custom_data_are_flags_that_some_data_set_takes():
    taken = {name for traits in DATASETS.values() for name in traits.takes}
    assert taken == {*OF_CUSTOM_DATA} <= {*ProtocolSettings.names()}


def test_a_data_set_of_a_plug_in_that_is_not_loaded_has_default_traits_and_no_images():
    traits = traits_of("stripes")
    assert (traits.follows, traits.recall_at, traits.default_recipe) == ("stripes", (1, 2, 4, 8), "thesis")
    with pytest.raises(InvalidInput, match="--dataset: received 'stripes', expected a data set .*plug-in"):
        traits.load(None)
