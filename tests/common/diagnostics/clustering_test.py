import numpy as np
import pytest

from common.diagnostics import evaluate_clustering
from common.errors import InvalidInput


def blobs(seed=0, spread=0.01):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(6), 10)
    return (rng.standard_normal((6, 4))[labels] + spread * rng.standard_normal((60, 4))).astype(np.float32), labels


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_separated_classes_agree_whatever_their_names(dtype):
    embeddings, labels = blobs()
    for names in (labels, 5 - labels, labels + 2**60):
        agreement = evaluate_clustering(embeddings.astype(dtype), names)
        assert agreement.as_dict() == pytest.approx({"AMI": 1.0, "NMI": 1.0})
        assert agreement.num_clusters == 6
    assert evaluate_clustering(np.ones((60, 3), dtype), labels).as_dict() == {"AMI": 0.0, "NMI": 0.0}


def test_the_seed_decides():
    embeddings, labels = blobs(spread=1.0)
    same = [evaluate_clustering(embeddings, labels, seed=3) for _ in range(2)]
    assert same[0] == same[1]
    assert len({evaluate_clustering(embeddings, labels, seed=seed) for seed in range(5)}) > 1
    for seed in (-1, 2**32):  # scikit-learn does not take it
        with pytest.raises(InvalidInput, match=f"seed: received {seed}, expected a number from 0 to 4294967295"):
            evaluate_clustering(embeddings, labels, seed=seed)


@pytest.mark.parametrize(
    ("embeddings", "labels", "message"),
    [
        (np.float32([[0], [np.nan]]), [0, 1], "embeddings.*row 1"),
        (np.float32([[0], [1]]), [0, 0], "single class"),
        (np.float32([[0], [1]]), [0.5, 1.0], "labels.*integers"),
        (np.float32([[0], [1]]), [0, 1, 2], r"labels.*integers \[2\]"),
    ],
)
def test_bad_input_is_refused(embeddings, labels, message):
    with pytest.raises(InvalidInput, match=message):
        evaluate_clustering(embeddings, labels)


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-25), (np.float32, 1e20), (np.float64, 1e-310)])
def test_the_scale_of_embeddings_changes_nothing(dtype, scale):
    embeddings, labels = blobs(spread=1.0)
    expected = evaluate_clustering(embeddings.astype(dtype), labels)
    power = 2.0 ** round(np.log2(scale))  # which changes no digit, as long as there is no subnormal number
    scaled = evaluate_clustering((embeddings.astype(np.float64) * power).astype(dtype), labels)
    assert expected.normalized_mutual_information > 0.3
    if scale > 1e-300:
        assert scaled == expected
    else:
        assert scaled.as_dict() == pytest.approx(expected.as_dict(), abs=0.1)
