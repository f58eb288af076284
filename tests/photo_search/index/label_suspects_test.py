import numpy as np
import pytest

from common.errors import InvalidInput
from photo_search.index import find_label_suspects


def loop(embeddings, labels, votes):
    """The docstring, row by row, for fewer rows than neighbours that are looked at."""
    vectors = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    cosines = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    scores = {}
    for row in range(len(labels)):
        similarity = {}
        for label in set(labels):
            members = [each for each in range(len(labels)) if labels[each] == label and each != row]
            best = sorted(cosines[row, members], reverse=True)[:votes]
            if label == labels[row]:
                similarity[label] = np.mean(best) if best else np.nan
            else:
                last = min(cosines[row, each] for each in range(len(labels)) if each != row)
                similarity[label] = (sum(best) + (votes - len(best)) * last) / votes
        others = {label: value for label, value in similarity.items() if label != labels[row]}
        suggested = max(others, key=others.get)
        scores[row] = others[suggested] - similarity[labels[row]], suggested
    return scores


@pytest.mark.parametrize("votes", [1, 3])
def test_scores_are_those_of_a_loop(votes):
    rng = np.random.default_rng(0)
    labels = [*"aaaaabbbbbbccdddd", "e"]
    embeddings = rng.normal(size=(len(labels), 6)).astype(np.float32)
    expected = loop(embeddings, labels, votes)
    found = find_label_suspects(embeddings, labels, num_votes=votes)
    assert sorted(found.rows) == list(range(len(labels) - 1))  # a class of one row is not judged
    assert np.all(np.diff(found.scores) <= 0)
    for row, score, suggested in zip(found.rows, found.scores, found.suggested):
        np.testing.assert_allclose(score, expected[row][0], atol=1e-6)
        assert suggested == expected[row][1]


@pytest.mark.parametrize("none", ["", None, float("nan")])
def test_rows_without_a_label_neither_vote_nor_are_judged(none):
    rng = np.random.default_rng(0)
    labels = np.array([*"aaaaabbbbbbccdddd"], object)
    embeddings = rng.normal(size=(len(labels), 6)).astype(np.float32)
    alone = find_label_suspects(embeddings, labels)
    places = np.sort(rng.choice(25, len(labels), replace=False))
    mixed, all_labels = rng.normal(size=(25, 6)).astype(np.float32), np.full(25, none, object)
    mixed[places], all_labels[places] = embeddings, labels
    found = find_label_suspects(mixed, all_labels)
    np.testing.assert_array_equal(found.rows, places[alone.rows])
    np.testing.assert_array_equal(found.suggested, alone.suggested)
    np.testing.assert_allclose(found.scores, alone.scores, atol=1e-6)


@pytest.mark.parametrize("row", [100, 1500])
def test_a_class_larger_than_a_block(row):
    rng = np.random.default_rng(2)
    embeddings = rng.normal(size=(2100, 4)).astype(np.float32)
    found = find_label_suspects(embeddings, [0] * 1900 + [1] * 200, num_votes=1)
    vectors = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    own, other = np.delete(vectors[:1900] @ vectors[row], row).max(), (vectors[1900:] @ vectors[row]).max()
    np.testing.assert_allclose(found.scores[list(found.rows).index(row)], other - own, atol=1e-5)


@pytest.mark.parametrize(
    ("embeddings", "labels", "message"),
    [
        (np.ones((3, 2)), [0, 1], r"\(3, 2\) and 2 labels"),
        (np.ones(3), [0, 1, 1], r"\(3,\) and 3 labels"),
        (np.ones((3, 2)), [1, 1, 1], "1 classes"),
    ],
)
def test_what_cannot_be_judged_is_refused(embeddings, labels, message):
    with pytest.raises(InvalidInput, match=message):
        find_label_suspects(embeddings, labels)
