"""A finished run as a model from images to embeddings, checked against its measurements."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from common import backbones
from common.data import Dataset, Examples
from common.data.image_formats import Reading
from common.errors import InvalidInput
from common.training.test_embeddings import read_test_embeddings
from experiments.runs.trained_model import TrainedModel, load_trained_model
from experiments.settings.config import ExperimentConfig

if TYPE_CHECKING:
    from tensorflow import keras

    from common.deployment.formats import Embed

# How far embeddings that are computed again may be from those that the run has stored.
_ROUNDING = 1e-4  # another processor, or number of threads
# Features of the run were cached in float16, or the network computes in 16 bits, where updates that are merged round
# otherwise than beside their kernels.
_HALF_PRECISION = 1e-2
_NUM_ORIGINALS = 64


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Comparison of a written model with its run."""

    num_checked: int  # test images that were embedded
    difference: float  # the largest difference of a component from the run's stored test embeddings
    from_network: float  # the same from the run's own network, computed now
    # cosine similarities `[images]` of embeddings of original files and of their prepared copies, which the run was
    # evaluated on; empty without copies
    originals: np.ndarray
    rounding: str = ""  # what it costs, if the format rounds

    def sentences(self) -> list[str]:
        """Describe the findings for people."""
        found = [
            f"Checked on {self.num_checked} test images: largest difference of a component from the run's test "
            f"embeddings {self.difference:.1e}, from its network computed again {self.from_network:.1e}."
        ]
        if self.rounding:
            found.append(self.rounding)
        if self.originals.size:
            found.append(
                f"Original files instead of the prepared copies ({self.originals.size} test images): cosine similarity "
                f"of the embeddings {self.originals.mean():.4f} on average, {self.originals.min():.4f} at least."
            )
        return found


class RunModel:
    """A finished run as a model from images (or tokens) to embeddings.

    It is compared on `num_checked` images, spread over the test set; or on about as many that are all images of their
    classes, so that retrieval among them can be measured.

    Raises:
        InvalidInput: the run has not finished, the data are others, or its weights do not give its test embeddings.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        dataset: Dataset,
        cache_dir: str | None,
        num_checked: int = 256,
        has_whole_classes: bool = False,
    ) -> None:
        from common.deployment.formats import spread_places, whole_classes

        self.path = pathlib.Path(path)
        self.trained: TrainedModel = load_trained_model(path, dataset=dataset, cache_dir=cache_dir)
        loaded = (self.trained.loaded or dataset).test
        # Photos of users are read as shown; only an older run on such photos keeps its reading.
        self.model = model_of(self.trained, Reading.SHOWN if loaded.reading == dataset.test.reading else loaded.reading)
        test = self.trained.dataset.test
        spread = spread_places(len(test), num_checked)
        chosen = whole_classes(test.labels, num_checked) if has_whole_classes else spread
        self._examples = test.subset(chosen)
        self._stored = read_test_embeddings(path)["queries"][chosen]
        self._network = self.trained.model.embed(self.trained.inputs(self._examples))
        self._originals: Examples | None = None
        if test.are_copies_of(loaded):
            self._originals = loaded.subset(chosen[:_NUM_ORIGINALS])
        self._check_network()

    @property
    def config(self) -> ExperimentConfig:
        """The run's configuration."""
        return self.trained.config

    def _check_network(self) -> None:
        """Refuse weights that do not reproduce, up to rounding, the stored embeddings."""
        is_half = self.config.cached_features or self.config.precision != "float32"
        limit = _HALF_PRECISION if is_half else _ROUNDING
        drift = _largest_difference(self._network, self._stored)
        if not drift <= limit * max(1.0, float(np.abs(self._stored).max())):
            raise InvalidInput(
                f"The weights in {self.path} give test embeddings that differ by {drift:.1e} from those that it has "
                f"stored, expected at most {limit:.0e}: they are not of one run. Delete {self.path} and give the "
                "command that trained this run again."
            )

    def agreement(self, embed: Embed, name: str) -> Agreement:
        """Compare a reloaded model with the run, as its format allows."""
        from common.deployment.formats import FORMATS, check_embeddings, rounding_sentence

        embeddings = np.concatenate([embed(inputs) for inputs in self._inputs(FORMATS[name].takes_crops)])
        from_network = check_embeddings(embeddings, self._network, name, "run")
        difference = _largest_difference(embeddings, self._stored)
        rounding = ""
        if FORMATS[name].is_rounded:
            rounding = rounding_sentence(embeddings, self._network, self._examples.labels)
        return Agreement(len(embeddings), difference, from_network, self._similarities(), rounding)

    def training_inputs(self) -> np.ndarray:
        """Return inputs of the network from some images that the run learnt from."""
        from common.deployment.formats import NUM_CALIBRATED, spread_places

        training = self.trained.training
        some = training.subset(spread_places(len(training), NUM_CALIBRATED))
        return np.concatenate([batch.numpy() for batch in self.trained.inputs(some)])

    def _inputs(self, takes_crops: bool) -> Iterator[np.ndarray]:
        """Yield input batches of the model, or of its network, in order.

        Images from files are the crops of evaluation, inside a black margin that the model cuts off: decoding a whole
        file changes the outermost columns a little.
        """
        from common.deployment.deployable_model import PREPROCESSING

        layers = {layer.name: layer for layer in self.model.layers}
        margin = 0
        if PREPROCESSING in layers and not takes_crops:
            transform = layers[PREPROCESSING].transform
            margin = transform.shorter_side - transform.size
        for batch in self.trained.inputs(self._examples):
            inputs = batch.numpy()
            if inputs.dtype != np.int32:
                inputs = inputs.astype(np.float32)
            sides = (margin // 2, margin - margin // 2)
            yield np.pad(inputs, [(0, 0), sides, sides, (0, 0)]) if margin else inputs

    def _similarities(self) -> np.ndarray:
        from common.deployment import Embedder

        if self._originals is None:
            return np.zeros(0)
        embedder = Embedder(self.model, "")
        embedder.reading = self._originals.reading  # as the copies were made
        originals = embedder.embed(self._originals.file_names)
        copies = self._network[: len(originals)]
        norms = np.linalg.norm(originals, axis=1) * np.linalg.norm(copies, axis=1)
        return (originals * copies).sum(axis=1) / np.maximum(norms, 1e-12)


def model_of(trained: TrainedModel, reading: Reading = Reading.SHOWN) -> keras.Model:
    """Return the trained model from images (or tokens) to embeddings.

    Low-rank updates (`--lora_rank`) are merged into the run's own network.

    Args:
        reading: of files, of any size.
    """
    from common.deployment import ImagePreprocessing, deployable_model
    from common.deployment.deployable_model import PREPROCESSING

    config, dataset = trained.config, trained.dataset
    backbones.merge_lora(trained.model.backbone)
    preprocessing = None
    if dataset.kind == "tokens":
        input_shape: tuple[int, ...] = dataset.train.arrays.shape[1:]
    elif dataset.kind == "image_files":
        antialias = config.evaluation_antialias is not False
        preprocessing = ImagePreprocessing(config.image_size, "center", antialias, reading, name=PREPROCESSING)
        input_shape = (config.image_size, config.image_size, dataset.channels)
    else:
        input_shape = dataset.train.arrays.shape[1:]
        preprocessing = ImagePreprocessing(min(input_shape[:2]), "native", name=PREPROCESSING)
    return deployable_model(
        trained.model.backbone,
        trained.model.head,
        normalization=trained.model.normalization,
        preprocessing=preprocessing,
        input_shape=input_shape,
        feature_sizes=trained.model.feature_sizes,
    )


def _largest_difference(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max())
