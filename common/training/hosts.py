"""Training of a `MetricModel` on several hosts, with checkpoints and resume."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator

import numpy as np
import tensorflow as tf

from common.errors import InvalidInput, check_positive, invalid
from common.ops.pair_masks import wrong_labels_in_one_line
from common.ops.replicas import gather_over_replicas
from common.records import RunDirectory
from common.training.checkpoint import Checkpoint
from common.training.metric_model import MetricModel

_LOST_HOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def fit_on_hosts(
    model: MetricModel,
    batches_from: Callable[[int], tf.data.Dataset],
    folder: str | os.PathLike,
    *,
    max_steps: int,
    steps_per_checkpoint: int = 100,
) -> list[float]:
    """Train a model on the hosts of its strategy, from the last checkpoint on.

    Each host runs the same program. The steps are those of one device with the global batch, up to rounding. The first
    host writes checkpoints. If a host fails, the others end with an error within minutes; start the program again on
    all hosts, and it resumes.

    Args:
        model: compiled; made in the scope of its strategy.
        batches_from: returns global batches from a step on, the same on each host, at least `max_steps` in all.
        folder: on a file system that all hosts share; of one training alone.
        max_steps: steps of the whole training.
        steps_per_checkpoint: steps between two checkpoints.

    Returns:
        The mean loss of each period between two checkpoints that this call has trained.

    Raises:
        InvalidInput: another host has failed; hosts that do not share the folder; too few batches; a loss that is not
            finite; a checkpoint of another number of replicas, or of other settings.
    """
    check_positive("max_steps", max_steps)
    strategy = model.distribute_strategy
    resolver = strategy.cluster_resolver
    is_first = resolver is None or not resolver.task_id
    run = RunDirectory(folder, {"steps_per_checkpoint": check_positive("steps_per_checkpoint", steps_per_checkpoint)})
    checkpoint = Checkpoint(run, model, [], steps_per_checkpoint)
    with contextlib.ExitStack() as stack:
        if is_first:
            stack.enter_context(run.locked())
        stack.enter_context(wrong_labels_in_one_line())
        stack.enter_context(_lost_host_in_words(run))
        periods = checkpoint.restore_latest() or 0
        _check_same_start(strategy, periods, run)
        start = periods * steps_per_checkpoint
        data = iter(strategy.experimental_distribute_dataset(_divided(batches_from(start))))
        step = tf.function(lambda *batch: strategy.run(model.train_step, args=(batch,)), autograph=False)
        losses = []
        for done in range(start + 1, max_steps + 1):
            batch = next(data, None)
            if batch is None:
                raise invalid("batches_from", received=f"{done - 1} batches", expected=f"{max_steps}")
            step(*batch)
            if done % steps_per_checkpoint and done < max_steps:
                continue
            losses.append(float(model.mean_loss.result()))
            model.mean_loss.reset_state()
            if not np.isfinite(losses[-1]):
                raise InvalidInput(f"The loss is {losses[-1]} between steps {done - steps_per_checkpoint} and {done}.")
            if is_first and done % steps_per_checkpoint == 0:
                checkpoint.save(done // steps_per_checkpoint)
            _gathered(strategy, done)  # all hosts wait for the checkpoint
    return losses


def _divided(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Let every host read all batches and keep its part of each."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return batches.with_options(options)


def _gathered(strategy: tf.distribute.Strategy, number: int) -> np.ndarray:
    """Return a number of each replica `[replicas]`."""
    gather = tf.function(lambda own: strategy.run(gather_over_replicas, args=(own,)), autograph=False)
    return np.asarray(strategy.experimental_local_results(gather(tf.constant([number])))[0])


def _check_same_start(strategy: tf.distribute.Strategy, periods: int, run: RunDirectory) -> None:
    found = sorted(set(_gathered(strategy, periods).tolist()))
    if len(found) > 1:
        expected = f"one checkpoint on all hosts: {run.path} must be in a folder that they share"
        raise invalid("folder of fit_on_hosts", received=f"checkpoints of periods {found}", expected=expected)


@contextlib.contextmanager
def _lost_host_in_words(run: RunDirectory) -> Iterator[None]:
    try:
        yield
    except _LOST_HOST as error:
        reason = re.sub(r"\{\{.*?\}\} *", "", str(error)).partition("\n")[0][:200]  # without names of a graph's nodes
        raise InvalidInput(
            f"Another host has failed or cannot be reached ({reason}). Start this program again on all hosts: it "
            f"resumes from the last checkpoint in {run.path}."
        ) from error
