import base64
import io

import numpy as np
import pytest
from PIL import Image

from common.deployment import Embedder
from common.errors import InvalidInput
from photo_search.page.network import PhotoNetwork
from photo_search.page.uploads import read_photo
from tests.common.deployment.small_models import SIZE, of_images, of_tokens
from tests.photo_search.page.hostile_files import encoded, jpeg, photo


@pytest.mark.parametrize(
    "contents",
    [jpeg((40, 30)), encoded(photo((17, 60)), "PNG"), encoded(photo((1, 1)), "PNG")],
    ids=["JPEG", "PNG", "1"],
)
def test_embeddings_are_those_of_the_index(contents, embedder):
    found = PhotoNetwork(embedder).embedding_of(read_photo(contents, 10_000))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, embedder.embed([contents]), atol=1e-6)


def test_a_grey_model_sees_grey():
    embedder = Embedder(of_images(channels=1)[0], "digest")
    contents = encoded(photo((30, 30)), "PNG")
    found = PhotoNetwork(embedder).embedding_of(read_photo(contents, 10_000))
    np.testing.assert_allclose(found, embedder.embed([contents]), atol=1e-6)


def test_weights_are_those_of_the_pooling(embedder):
    pixels = np.asarray(photo((SIZE, SIZE)))
    attention = PhotoNetwork(embedder).attention_of(pixels)
    assert attention.weights.shape == (2, 2)
    assert attention.weights.mean() == pytest.approx(1, abs=1e-5)
    network = embedder.model.get_layer("network")
    backbone, head = network.layers[1], network.layers[2]
    expected = 4 * np.asarray(head.pooling.spatial_weights(backbone(attention.seen[None]))).reshape(2, 2)
    np.testing.assert_allclose(attention.weights, expected, atol=1e-5)
    assert attention.weights.std() > 1e-4


def test_the_overlay_is_a_picture(embedder):
    overlay = PhotoNetwork(embedder).attention_of(np.asarray(photo((50, 20)))).overlay()
    kind, _, contents = overlay.partition(",")
    assert kind == "data:image/jpeg;base64"
    with Image.open(io.BytesIO(base64.b64decode(contents))) as image:
        assert image.size == (320, 320)


def test_other_poolings_have_no_attention():
    network = PhotoNetwork(Embedder(of_images()[0], "digest"))
    assert not network.has_attention
    assert network.attention_of(np.asarray(photo())) is None


def test_a_model_of_tokens_is_refused():
    with pytest.raises(InvalidInput, match="model of tokens"):
        PhotoNetwork(Embedder(of_tokens(), "digest"))
