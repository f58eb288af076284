"""Batches on several replicas of `tf.distribute`, with losses and gradients of the global batch.

Convention of gradients, which makes N replicas train like one: each replica differentiates its N-th part of the
loss of the global batch. The gradient of a gathered tensor is summed over the replicas that read it, and the
gradients of the weights are summed over replicas. This is right both for a loss's weights (proxies) and for the
network below it (which has seen a part of the batch).
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator, Sequence

import tensorflow as tf

_thread = threading.local()  # each replica is traced in a thread of its own
_warned: set[str] = set()


def num_replicas() -> int:
    """Return the number of replicas running here; 1 outside of a replica."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def gather_over_replicas(values: tf.Tensor) -> tf.Tensor:
    """Return the rows of all replicas, in the order of the replicas.

    It is a collective operation: every replica calls it, and not inside of `tf.cond` or `tf.while_loop`. On one replica
    the values are returned unchanged.

    Args:
        values: `[rows, ...]`, of any type; replicas may have different numbers of rows.

    Returns:
        `[rows of all replicas, ...]`, the same on each. Exact gradient: the gradients of all replicas are summed,
        and each takes its own rows.
    """
    if num_replicas() == 1:
        return values
    placed = tf.identity(values)  # on the replica's device: with one replica on each host, a batch has none yet
    return tf.distribute.get_replica_context().all_gather(placed, axis=0)


def first_row_of_replica(num_rows: tf.Tensor) -> tf.Tensor:
    """Return the index of this replica's first row in the gathered batch.

    Args:
        num_rows: of this replica, an integer scalar.

    Returns:
        An integer scalar.
    """
    if num_replicas() == 1:
        return tf.zeros_like(num_rows)
    own = tf.distribute.get_replica_context().replica_id_in_sync_group
    return tf.reduce_sum(gather_over_replicas(num_rows[None])[:own])


def sum_over_replicas(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Sum tensors over replicas, in one collective operation.

    Args:
        tensors: of the same shapes on each replica.

    Returns:
        As many tensors, the same on each replica; on one replica, the given ones.
    """
    if num_replicas() == 1 or not tensors:
        return list(tensors)
    return list(tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, list(tensors)))


@contextlib.contextmanager
def of_the_global_batch() -> Iterator[None]:
    """Mark enclosed loss calls as seeing the global batch, so none warns.

    Examples:
        >>> with of_the_global_batch():
        ...     value = loss(gather_over_replicas(embeddings), gather_over_replicas(labels), training=True)
        >>> share = value / num_replicas()  # what the replica differentiates
    """
    before = getattr(_thread, "is_global", False)
    _thread.is_global = True
    try:
        yield
    finally:
        _thread.is_global = before


def warn_of_a_part(name: str) -> None:
    """Warn, once a name, that a loss sees one replica's part only.

    Args:
        name: of the loss.
    """
    if num_replicas() == 1 or getattr(_thread, "is_global", False) or name in _warned:
        return
    _warned.add(name)
    warnings.warn(
        f"{name} is called in each of {num_replicas()} replicas and compares that replica's part of the batch alone: "
        "pairs across replicas are lost, and a memory holds one replica's embeddings. "
        "common.training.MetricModel(network, loss) gathers the batch; in a training loop of your own, call the loss "
        "in common.ops.replicas.of_the_global_batch() with gather_over_replicas(embeddings) and the labels likewise.",
        stacklevel=3,
    )
