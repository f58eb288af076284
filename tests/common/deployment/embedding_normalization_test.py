import numpy as np
import pytest

from common.deployment import EmbeddingNormalization
from common.errors import InvalidInput


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("unit", [[0.6, 0.8], [0.6, 0.8]]), ("clip", [[0.6, 0.8], [0.3, 0.4]]), ("none", [[3, 4], [0.3, 0.4]])],
)
def test_lengths_by_hand(mode, expected):
    layer = EmbeddingNormalization.from_config(EmbeddingNormalization(mode).get_config())
    np.testing.assert_allclose(layer(np.array([[3, 4], [0.3, 0.4]], np.float32)), expected, rtol=1e-6)


def test_features_are_brought_to_length_one_by_one():
    layer = EmbeddingNormalization.from_config(EmbeddingNormalization("unit", (2, 1)).get_config())
    np.testing.assert_allclose(layer(np.array([[3, 4, -9]], np.float32)), [[0.6, 0.8, -1.0]], rtol=1e-6)
    assert "sizes" not in EmbeddingNormalization().get_config()
    with pytest.raises(InvalidInput, match="'sphere', expected one of unit, clip, none"):
        EmbeddingNormalization("sphere")
