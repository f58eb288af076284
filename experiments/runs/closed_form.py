"""Figures before training, and closed forms on training classes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from common import training
from common.data import Examples
from common.errors import InvalidInput, check_given, invalid
from common.files import read_json, write_json
from common.progress import progress_bar, write_notice
from common.retrieval.metrics import TABLE_METRICS
from experiments.rows.rows import CLOSED_FORM, UNTRAINED, VALIDATED_BEFORE, evaluate_embeddings
from experiments.settings.checks import identity_misfit
from experiments.settings.run_settings import HEAD_STARTS, IDENTITY_START, RANDOM_START, WHITENINGS

if TYPE_CHECKING:
    from tqdm import tqdm

    from common.data import EvaluationInputs
    from experiments.runs.unit import Unit


def untrained_metrics(unit: Unit) -> dict[str, dict]:
    """Evaluate the backbone's average features, before training, and say so.

    Closed forms of these features are evaluated in the first repeat of each fold alone. Computed once per untrained
    network and data set, then reused by other methods.
    """
    path = unit.folder / "untrained.json"
    found = read_json(path) or {}
    if VALIDATED_BEFORE not in found:  # no file, or one of an earlier version
        digest = _digest_of_features(unit)
        others = map(read_json, sorted(path.parents[2].glob(f"*/{path.parent.name}/{path.name}")))
        same = [other for other in others if other and other.get("of") == digest and VALIDATED_BEFORE in other]
        found = same[0] if same else {"of": digest, **_measured_before(unit)}
        write_json(path, found)
    figures = ", ".join(f"{name} {100 * found[UNTRAINED][name]:.2f}" for name in TABLE_METRICS)
    write_notice(f"before training, the backbone's average features on the test set: {figures}")
    return {name: found[name] for name in (UNTRAINED, CLOSED_FORM, VALIDATED_BEFORE)}


def _measured_before(unit: Unit) -> dict[str, dict]:
    dataset = unit.dataset
    places = [(dataset.test, dataset.gallery)]
    if unit.queries is not dataset.test:
        places.append((unit.queries, unit.gallery))
    evaluated = [unit.embedded(*place, output="averages") for place in places]
    found = [{UNTRAINED: figures_on_sphere(arrays, unit.of)} for arrays in evaluated]
    closed: list[dict] = [{} for _ in evaluated]
    if not unit.repeat:
        closed = closed_form_figures(unit, evaluated)
    validated = [figures | others for figures, others in zip(found[1:], closed[1:], strict=True)]
    return {**found[0], CLOSED_FORM: closed[0], VALIDATED_BEFORE: validated[0] if validated else {}}


def _digest_of_features(unit: Unit) -> str:
    """Return a digest of all that decides these figures.

    Two networks and preparations of images that agree in each bit of a batch are taken to be the same.
    """
    batch = unit.model.embed(unit.inputs(unit.dataset.test).take(1), output="averages")
    digest = hashlib.sha256(repr((unit.fingerprint, unit.embedding_dim, HEAD_STARTS)).encode())
    names, labels = unit.image_names, unit.training.labels
    images = unit.training.arrays if names is None else np.array([*map(os.fsencode, names.tolist())])
    for array in (batch, labels, images):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def start_head(model: training.EmbeddingModel, name: str, inputs: EvaluationInputs, examples: Examples) -> None:
    """Set the head's linear layer to the start of a name of `--head_start`.

    The kernel gets the norm that a random one has in the mean, so that learning rates mean the same. Embeddings of unit
    length do not change by it.
    """
    if name == RANDOM_START:
        return
    projection = check_given("projection", model.head.projection)
    channels, dim = projection.kernel.shape
    if name == IDENTITY_START:
        if dim != channels:
            raise identity_misfit(dim, channels)
        projection.set_weights([np.eye(channels)])
        return
    most = closed_form_dim(name, dim, channels, len(examples))
    if dim > most:
        expected = f"at most {most}, for {channels} channels of {len(examples):,} images"
        fix = "Give fewer dimensions, or --head_start=random."
        raise invalid(f"--embedding_dim with --head_start={name}", received=dim, expected=expected, fix=fix)
    with _bar(examples) as bar:
        features = model.embed(inputs(examples), output="pooled", advance=bar.update)
    found = closed_form(name, features, examples.labels, dim)
    scale = np.sqrt(2 * channels * dim / (channels + dim)) / np.linalg.norm(found.kernel)  # Glorot's, over its own
    projection.set_weights([found.kernel * scale, found.bias * scale])


def closed_form_dim(name: str, dim: int, channels: int, num_images: int) -> int:
    """Return the size of a closed form, at most `dim`.

    `name`: of `HEAD_STARTS`. A whitening can keep all channels, even of few images.
    """
    return channels if name in WHITENINGS and dim >= channels else min(dim, channels, num_images - 1)


def closed_form(name: str, features: np.ndarray, labels: np.ndarray, dim: int) -> training.AffineMap:
    """Return the closed form of a name of `HEAD_STARTS` on features `[items, channels]`."""
    if name in WHITENINGS:
        return training.within_class_whitening(features, labels, dim, share=WHITENINGS[name])
    return training.principal_components(features, dim)


def closed_form_figures(unit: Unit, evaluated: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, dict[str, float]]]:
    """Evaluate every closed form of the backbone's average features, without training.

    Metrics of each of the `evaluated` sets are by name of `HEAD_STARTS`. One that the features do not have (few
    channels or training images) is left out with a notice.
    """
    examples = unit.training
    with _bar(examples) as bar:
        features = unit.model.embed(unit.inputs(examples), output="averages", advance=bar.update)
    figures: list[dict[str, dict[str, float]]] = [{} for _ in evaluated]
    for name in HEAD_STARTS:
        dim = closed_form_dim(name, unit.embedding_dim, features.shape[1], len(features))
        try:
            found = closed_form(name, features, examples.labels, dim)
        except InvalidInput as error:
            write_notice(f"no figures of {name} without training: {error}")
            continue
        for arrays, of_set in zip(evaluated, figures, strict=True):
            of_set[name] = figures_on_sphere(arrays, unit.of, found)
    return figures


def figures_on_sphere(
    arrays: Mapping[str, np.ndarray],
    dataset: str,
    mapping: Callable[[np.ndarray], np.ndarray] | training.AffineMap = np.asarray,
) -> dict[str, float]:
    """Evaluate mapped vectors `[items, dim]` of length one; zeros stay."""
    found = dict(arrays)
    for part in found.keys() & {"queries", "gallery"}:
        vectors = mapping(arrays[part])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        found[part] = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
    return evaluate_embeddings(found, dataset).as_dict()


def _bar(examples: Examples) -> tqdm:
    return progress_bar(total=len(examples), desc="features of the training classes", unit="image")
