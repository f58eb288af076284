import numpy as np
from PIL import Image

from experiments.protocols.attention import ImageAttention, attention_panels


def test_attention_panels_show_where_the_weight_is(tmp_path):
    image = np.full((24, 24, 1), 128, np.uint8)
    left = np.zeros((4, 4))
    left[:, 0] = 0.25
    attention = ImageAttention(image, "a class with quite a long name indeed", left, {"prototype 3": left})
    attention_panels([attention, attention], tmp_path / "attention.png", title="run")
    picture = np.asarray(Image.open(tmp_path / "attention.png").convert("RGB")).astype(int)
    yellow = (picture[..., 0] > 150) & (picture[..., 1] > 150) & (picture[..., 2] < 120)  # viridis at its largest
    columns = np.flatnonzero(yellow.any(axis=0))
    assert len(columns) > 0
    assert columns.min() > picture.shape[1] / 3  # not in the first panel, which shows the image alone
