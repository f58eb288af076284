"""Run of the MNIST study: CCP in the plane, with picture data per problem."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from tensorflow import keras

import ccp_dml
from ccp_dml.projection_problem import snapshot_recorder
from common import backbones, data, losses, pooling, records, references, retrieval, training
from common.errors import invalid
from experiments.studies.mnist import MnistSettings

_EVALUATION_BATCH = 500


def hold_out(examples: data.Examples, per_class: int, seed: int) -> tuple[data.Examples, data.Examples]:
    """Hold out `per_class` random examples of each class for validation.

    Raises:
        InvalidInput: a class would keep fewer than two to train on, or have fewer than two to validate with.
    """
    fewest = int(np.bincount(examples.labels).min())
    if not 2 <= per_class <= fewest - 2:
        raise invalid("validation_per_class", received=per_class, expected=f"a number from 2 to {fewest - 2}")
    order = np.random.default_rng(seed).permutation(len(examples))
    by_class = [order[examples.labels[order] == label][:per_class] for label in range(examples.num_classes)]
    validates = np.zeros(len(examples), bool)
    validates[np.concatenate(by_class)] = True
    return examples.subset(~validates), examples.subset(validates)


class MnistTraining:
    """Training of one network in its run directory.

    Besides the usual files, the run directory has a file per problem (`problem0.npz`, ...): the test digits in the
    plane when the problem begins, the previous problem's converged proxies (none at first) and the next ones. The
    last file is of the problem after the end.
    """

    def __init__(self, settings: MnistSettings, dataset: data.Dataset, run: records.RunDirectory):
        self.settings, self.dataset, self.run = settings, dataset, run
        self.training, self.validation = hold_out(dataset.train, settings.validation_per_class, settings.seed)
        self.batches = data.ClassBalancedBatches(
            self.training.labels, self.training.num_classes, settings.samples_per_class, settings.seed
        )

    def train(self, checkpoint_seconds: float = 30.0) -> dict:
        """Train or resume, embed the test digits, write and return the result."""
        return training.train_in(self.run, self.settings.seed, lambda: self._prepared(checkpoint_seconds))

    def _prepared(self, checkpoint_seconds: float) -> training.Training:
        cost = records.TrainingCost()
        backbone = backbones.resnet_v2_20(self.dataset.channels)
        head = training.EmbeddingHead(pooling.GlobalAveragePooling(), self.settings.embedding_dim)
        model = training.EmbeddingModel(backbone, head, self._loss(backbone, head), normalization="clip")
        model.build_from_spec(*self._batches_from(0).element_spec)
        term = ccp_dml.ProximalTerm(
            [*backbone.trainable_variables, *head.trainable_variables], self.settings.ccp_lambda
        )
        projections = self._projections(model, term)
        return training.Training(
            model,
            self._batches_from,
            lambda: retrieval.evaluate_retrieval(self._embed(model, self.validation), self.validation.labels).as_dict(),
            self._schedule(checkpoint_seconds),
            self._make_update,
            lambda history: self._figures(model, projections),
            cost,
            gradient_transforms=[term, training.CoupledWeightDecay(self.settings.weight_decay, model)],
            callbacks=[projections, EndAfterProblems(projections, self.settings.num_problems)],
            description=f"{self.settings.anchors}, seed {self.settings.seed}",
            deviations=self.dataset.deviations,
        )

    def _loss(
        self, backbone: keras.Model, head: training.EmbeddingHead
    ) -> ccp_dml.ChanceConstrainedLoss | ccp_dml.SampleBasedLoss:
        settings, num_classes = self.settings, self.training.num_classes
        loss = losses.ContrastiveLoss(settings.positive_margin, settings.negative_margin, normalization="clip")
        if settings.anchors != "samples":
            proxies = references.ProxyBank(num_classes, settings.anchors_per_class, settings.embedding_dim)
            return ccp_dml.ChanceConstrainedLoss(
                loss, proxies, settings.in_batch_weight, warm_up_in_batch=settings.start_steps > 0
            )
        pools = self._pools(embed=None)  # it is asked for indices alone
        return ccp_dml.SampleBasedLoss(
            loss,
            lambda images, training: head(backbone(images, training=training), training=training)["embeddings"],
            lambda problem, positions: self.training.arrays[pools.examples_at(problem, positions)],
            num_classes,
            settings.anchors_per_class,
            self.training.arrays.shape[1:],
            settings.in_batch_weight,
        )

    def _pools(self, embed) -> ccp_dml.ClassPools:
        settings = self.settings
        return ccp_dml.ClassPools(
            embed, self.training, data.NoAugmentation(), settings.pool_size, settings.anchors_per_class, settings.seed
        )

    def _projections(
        self, model: training.EmbeddingModel, term: ccp_dml.ProximalTerm
    ) -> ccp_dml.AlternatingProjections:
        settings = self.settings
        rules = ccp_dml.ProjectionRules(
            patience=settings.projection_patience,
            start_step=0 if settings.anchors == "samples" else settings.start_steps,
            max_problems=1 if settings.anchors == "fixed proxies" else None,
        )

        on_problem_start = snapshot_recorder(self.run.path, lambda: self._embed(model, self.dataset.test))
        return ccp_dml.AlternatingProjections(
            model.metric_loss, term, self._pools(model.embed), rules, on_problem_start
        )

    def _batches_from(self, step: int) -> tf.data.Dataset:
        return data.training_batches(
            self.training, self.batches, data.NoAugmentation(), self.settings.seed, start_step=step
        )

    def _embed(self, model: training.EmbeddingModel, examples: data.Examples) -> np.ndarray:
        return model.embed(data.evaluation_batches(examples, data.Identity(), _EVALUATION_BATCH))

    def _schedule(self, checkpoint_seconds: float) -> training.TrainingSchedule:
        settings = self.settings
        num_evaluations = -(-settings.max_steps // settings.steps_per_evaluation)
        return training.TrainingSchedule(
            max_steps=settings.max_steps,
            steps_per_evaluation=settings.steps_per_evaluation,
            patience=num_evaluations,  # the number of problems ends a run, or `max_steps`
            checkpoint_seconds=checkpoint_seconds,
        )

    def _make_update(self) -> training.ProxyRateOptimizer:
        return training.ProxyRateOptimizer(training.FusedAdam(self.settings.learning_rate, beta_2=self.settings.beta_2))

    def _figures(
        self, model: training.EmbeddingModel, projections: ccp_dml.AlternatingProjections
    ) -> tuple[dict, dict]:
        """Return test figures and problems of a trained model, and its embeddings."""
        embeddings = {"queries": self._embed(model, self.dataset.test), "query_labels": self.dataset.test.labels}
        figures = {
            "test": retrieval.evaluate_retrieval(embeddings["queries"], embeddings["query_labels"]).as_dict(),
            "problems": [problem.as_dict() for problem in projections.problems],
        }
        return figures, embeddings


class EndAfterProblems(records.ResumableCallback):
    """Callback that ends a run after a number of solved projection problems.

    It follows `projections`, which has then begun one problem more (whose proxies the figure shows).
    """

    def __init__(self, projections: ccp_dml.AlternatingProjections, num_problems: int):
        super().__init__()
        self.projections, self.num_problems = projections, num_problems

    def on_epoch_end(self, epoch, logs=None):
        if self.stopped:
            self.model.stop_training = True

    @property
    def stopped(self) -> bool:  # type: ignore[override]  # follows from `projections`; never set
        """True if all problems are solved, also after `projections` is restored."""
        return len(self.projections.problems) > self.num_problems
