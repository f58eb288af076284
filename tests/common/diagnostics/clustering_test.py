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
    for names in (labels, labels[::-1], labels + 2**60):
        agreement = evaluate_clustering(embeddings.astype(dtype), names if names is not labels[::-1] else labels)
        assert agreement.as_dict() == pytest.approx({"AMI": 1.0, "NMI": 1.0})
        assert agreement.num_clusters == 6


def test_labels_that_floats_cannot_tell_apart_are_two_classes():
    result = evaluate_clustering(np.float32([[0], [0.1], [5], [5.1]]), np.array([2**53, 2**53, 2**53 + 1, 2**53 + 1]))
    assert result.num_clusters == 2
    assert result.adjusted_mutual_information == 1.0


def test_a_collapsed_embedding_scores_zero():
    assert evaluate_clustering(np.ones((60, 3)), blobs()[1]).as_dict() == {"AMI": 0.0, "NMI": 0.0}


def test_the_seed_decides():
    embeddings, labels = blobs(spread=1.0)
    same = [evaluate_clustering(embeddings, labels, seed=3) for _ in range(2)]
    assert same[0] == same[1]
    assert len({evaluate_clustering(embeddings, labels, seed=seed) for seed in range(5)}) > 1


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


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_scikit_learn_does_not_take_is_refused(seed):
    with pytest.raises(InvalidInput, match=f"Invalid seed: received {seed}, expected a number from 0 to 4294967295"):
        evaluate_clustering(*blobs(), seed=seed)
