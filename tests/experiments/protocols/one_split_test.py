import numpy as np
import pytest

from common.data import Dataset, Examples
from common.retrieval import evaluate_retrieval
from experiments.reports.scores import Scores
from experiments.studies.collages import without_unseen_letters
from tests.experiments.written_results import drawn_row


def test_estimates_average_seeds_and_differences_are_paired(tmp_path):
    good, bad = (
        [drawn_row(tmp_path / f"{noise}-{repeat}", repeat, repeat, noise) for repeat in range(3)]
        for noise in (0.3, 0.8)
    )
    first, second = Scores(good), Scores(bad)
    values = [
        evaluate_retrieval(u.test_embeddings()["queries"], u.test_embeddings()["query_labels"]).map_at_r for u in good
    ]
    assert first.estimate("MAP@R").estimate == pytest.approx(np.mean(values))
    difference = first.difference(second, "MAP@R")
    assert difference.estimate == pytest.approx(first.estimate("MAP@R").estimate - second.estimate("MAP@R").estimate)
    assert difference.excludes_zero
    assert difference.training_error is not None
    assert Scores(good[:1]).estimate("P@1").training_error is None


def dataset_of(num_train, num_others, names):
    def examples(labels):
        return Examples(np.repeat(labels, 2), inputs=np.zeros((2 * len(labels), 4, 4, 1), np.uint8))

    labels = np.arange(num_train + num_others)
    return Dataset(
        name="drawn",
        train=examples(labels[:num_train]),
        test=examples(labels[num_train:]),
        validation=examples(labels[num_train:]),
        class_names=names,
    )


def test_pre_training_never_sees_letters_that_validate_or_test():
    collages = dataset_of(2, 2, ["A", "B", "C", "D"])
    glyphs = dataset_of(4, 2, ["D", "A", "C", "+", "B", "-"])
    kept = without_unseen_letters(glyphs, collages)
    assert [kept.class_names[label] for label in np.unique(kept.train.labels)] == ["A", "+"]
    assert [kept.class_names[label] for label in np.unique(kept.test.labels)] == ["B", "-"]
