"""A small training with CCP whose validation figures are given, for tests of when problems begin and end."""

import numpy as np
import tensorflow as tf

from ccp_dml import AlternatingProjections, ChanceConstrainedLoss, ProjectionRules, ProximalTerm
from common.data import ClassBalancedBatches, Examples, RandomShift, training_batches
from common.losses import ContrastiveLoss
from common.pooling import GlobalAveragePooling
from common.records import RunDirectory
from common.references import ProxyBank
from common.training import EmbeddingHead, EmbeddingModel, FusedAdam, ProxyRateOptimizer, TrainingSchedule, fit

keras = tf.keras
CLASSES, PROXIES, DIM, RATE = 4, 2, 6, 0.25
MOVE = 2.0**-7


class ScriptedTraining:
    """A small network, its data and CCP, trained with given validation figures (or some that depend on the weights)."""

    def __init__(self, rules=None, given=None, stop_after=None, with_batch_norm=True, before=()):
        rules = rules or ProjectionRules()
        keras.utils.set_random_seed(3)
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(CLASSES), 5)
        images = np.clip(labels[:, None, None, None] * 40 + rng.normal(60, 30, (20, 8, 8, 1)), 0, 255)
        self.examples = Examples(labels, images.astype(np.uint8))
        layers = [keras.Input((None, None, 1)), keras.layers.Rescaling(1 / 128), keras.layers.Conv2D(8, 3)]
        layers += [keras.layers.BatchNormalization()] if with_batch_norm else []
        backbone = keras.Sequential([*layers, keras.layers.ReLU()])
        self.loss = ChanceConstrainedLoss(
            ContrastiveLoss(0.0, 0.5, normalization="clip"),
            ProxyBank(CLASSES, PROXIES, DIM),
            warm_up_in_batch=rules.waits,
        )
        head = EmbeddingHead(GlobalAveragePooling(), DIM)
        self.model = EmbeddingModel(backbone, head, self.loss, normalization="clip")
        self.model.build_from_batch(self.examples.inputs, self.examples.labels)
        self.term = ProximalTerm([*backbone.trainable_variables, *head.trainable_variables], RATE)
        self.projections = AlternatingProjections(self.loss, self.term, self.embed_pools, rules, in_batch_values=before)
        self.given, self.stop_after, self.seen = given, stop_after, []
        self.rates, self.begun = [], []
        self.embedded = {}

    def pools(self, problem):
        """Embeddings of four images of each class, drawn anew for each problem, with the present weights."""
        places = np.random.default_rng((5, problem)).permuted(np.arange(20).reshape(CLASSES, 5), axis=1)[:, :4]
        embeddings = self.model(self.examples.inputs[places.ravel()].astype(np.float32))
        return np.reshape(embeddings, (CLASSES, 4, DIM))

    def embed_pools(self, problem):
        self.embedded[problem] = (self.model.get_weights(), self.pools(problem))
        return self.embedded[problem][1]

    def validate(self):
        if len(self.seen) == self.stop_after:
            raise KeyboardInterrupt
        self.rates.append(float(self.term.current_rate))
        self.begun.append(int(np.array(getattr(self.loss, "started", 1))))
        self.seen.append([np.array(weight) for weight in self.model.get_weights()])
        if self.given is not None:
            return {"MAP@R": self.given[len(self.seen) - 1]}
        return {"MAP@R": float(np.sin(1e4 * np.abs(self.seen[-1][0]).sum())) / 2 + 0.5}

    def batches_from(self, step):
        batches = ClassBalancedBatches(self.examples.labels, CLASSES, 3, seed=1)
        return training_batches(self.examples, batches, RandomShift(1), seed=1, start_step=step)

    def run(self, path, epochs=12, warm_up_steps=0, patience=100):
        run = RunDirectory(path, {})
        schedule = TrainingSchedule(2 * epochs, 2, patience, warm_up_steps=warm_up_steps, checkpoint_seconds=0.0)
        return fit(
            self.model,
            self.batches_from,
            self.validate,
            run,
            schedule,
            lambda: ProxyRateOptimizer(FusedAdam(0.01, beta_2=0.99)),
            gradient_transforms=[self.term],
            extra_callbacks=[self.projections],
        )

    def replay(self):
        """The given evaluations; between them each weight moves by `MOVE`, as if it were trained for two steps."""
        self.projections.set_model(self.model)
        self.projections.set_params({"epochs": len(self.given)})
        self.model.stop_training = False
        self.projections.on_train_begin()
        for epoch in range(len(self.given)):
            self.projections.on_epoch_begin(epoch)
            self.model.set_weights([w + MOVE if w.dtype == np.float32 else w for w in self.model.get_weights()])
            self.projections.on_train_batch_end(1)  # the second step
            self.projections.on_epoch_end(epoch, self.validate())

    def proxies_of(self, weights):
        """The proxies, normalised, among all weights."""
        index = [id(weight) for weight in self.model.weights].index(id(self.loss.proxies.proxies))
        proxies = weights[index].reshape(CLASSES, PROXIES, DIM)
        return proxies / np.maximum(1.0, np.linalg.norm(proxies, axis=-1, keepdims=True))

    def network_of(self, weights):
        """The weights that have a proximal term, among all weights."""
        ids = [id(weight) for weight in self.model.weights]
        return [weights[ids.index(id(variable))] for variable in self.term.variables]


def assert_all_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others):
        np.testing.assert_array_equal(one, other)
