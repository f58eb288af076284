"""Draws where a trained model looks: attention laid over the images, as a whole and prototype by prototype.

Regenerates: the attention maps of thesis figures 5.5 and 5.6.
Command: python -m experiments.attention_figures --run=runs/fair/cars196/pnca+gsp-0123456789/fold0-repeat0
Expected: weight on the target's tile of collages (thesis figure 5.5); no figure is printed.
Cost: seconds on a CPU, after the run itself.
"""

from __future__ import annotations

import pathlib

import numpy as np
from absl import flags

from experiments.process.quiet_start import quiet_start

with quiet_start():
    import tensorflow as tf

    from common.ops.checks import InvalidInput, check_positive
    from experiments.reports.attention import ImageAttention, attention_panels
    from experiments.settings import flags as experiment_flags
    from experiments.units.pooling_weights import has_weights, image_batches, selection_of
    from experiments.units.trained_model import TrainedModel, load_trained_model
    from gsp_dml import GeneralizedSumPooling
    from gsp_dml.selection_metrics import pooled_features


def main() -> None:
    """Draws the figure of one run and says where it is."""
    values = flags.FLAGS
    num_images = int(check_positive("--num_images", values.num_images))
    trained = load_trained_model(values.run, data_dir=values.data_dir, cache_dir=values.cache_dir)
    if trained.config.backbone == "token_embedding" or not has_weights(trained.model.head.pooling):
        raise InvalidInput(f"--run: {trained.config.pooling} on {trained.config.dataset} has no attention over images.")
    attentions = attention_of(trained, num_images, values.num_prototypes)
    path = pathlib.Path(values.run) / "attention.png"
    attention_panels(attentions, path, title=f"{trained.config.name} on {trained.config.dataset}")
    print(f"Attention of {len(attentions)} test images: {path}")


def attention_of(trained: TrainedModel, num_images: int, num_prototypes: int) -> list[ImageAttention]:
    """What is drawn of some test images, of different classes as far as there are.

    Args:
        trained: the model, its configuration and data.
        num_images: images to draw.
        num_prototypes: prototypes to draw (generalized sum pooling only): those that receive most of these images.
    """
    test = trained.dataset.test
    _, first_of_class = np.unique(test.labels, return_index=True)
    chosen = first_of_class[np.unique(np.linspace(0, len(first_of_class) - 1, num_images).astype(int))]
    examples = test.subset(chosen)
    images = np.concatenate([np.asarray(batch) for batch in image_batches(examples, trained.config, trained.dataset)])
    batches = tf.data.Dataset.from_tensor_slices(images).batch(16)
    selection = selection_of(trained.model, batches)
    names = trained.dataset.class_names
    plans, used = _plans(trained.model, images, num_prototypes)
    return [
        ImageAttention(
            image=images[index],
            name=names[label] if len(names) else f"class {label}",
            total=selection.weights[index].reshape(selection.map_shape),
            prototypes={f"prototype {i}": plans[index, :, i].reshape(selection.map_shape) for i in used},
        )
        for index, label in enumerate(examples.labels)
    ]


def _plans(model, images: np.ndarray, num_prototypes: int) -> tuple[np.ndarray, list[int]]:
    """Transport plans `[images, positions, prototypes]`, each with sum one, and the most used prototypes, if any."""
    pooling = model.head.pooling
    if not isinstance(pooling, GeneralizedSumPooling) or not bool(pooling.has_prototypes()):
        return np.zeros((len(images), 1, 0)), []
    features, _ = pooled_features(model, images)
    pooling.return_attention = True
    plan = np.asarray(pooling.transport(features).plan)
    plan = plan / plan.sum((1, 2), keepdims=True)
    used = np.argsort(-plan.sum((0, 1)), kind="stable")[:num_prototypes]
    return plan, used.tolist()


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "A finished run's directory.", required=True)
    flags.DEFINE_integer("num_images", 8, "Test images to draw, each of another class.")
    flags.DEFINE_integer("num_prototypes", 6, "Prototypes to draw: the most used ones.", lower_bound=0)
    flags.DEFINE_string("data_dir", None, "Folder of the data set's official files; none for embedded data sets.")
    flags.DEFINE_string("cache_dir", None, "Folder for prepared images (default: ~/.cache/deep_metric_learning).")
    experiment_flags.run_command(main)
