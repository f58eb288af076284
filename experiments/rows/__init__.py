"""Stored rows and their scores: the one container that everything reads."""

from experiments.rows.scores import Scores, cell, collection_scores, labels_of, scores_of_trainings, training_scores
from experiments.rows.store import StudyRows

__all__ = ["Scores", "StudyRows", "cell", "collection_scores", "labels_of", "scores_of_trainings", "training_scores"]
