"""Traced functions of one model, used again for the next model of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import tensorflow as tf

ConcreteFunction: TypeAlias = tf.types.experimental.ConcreteFunction
Outputs: TypeAlias = "tf.Tensor | dict[str, tf.Tensor]"

# What a trace has of its own besides variables: seeds of stateful random numbers, and Python functions.
_BOUND = ("seed", "seed2", "token")
_NUM_KEPT = 12  # three functions each of models of four kinds: folds may differ in the number of classes


class TracedFunctions:
    """Keeps the latest traces of functions, and gives them the variables of whichever model calls.

    Tracing a training step takes longer than a hundred steps of a small network. A trace is a graph whose variables
    are inputs: with those of another model of the same kind it computes what a trace of that model would. One that
    holds anything else (a seed, a table, a Python function, a variable that the model does not name) is not kept.

    One object serves models of one data set, one after the other.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Trace] = {}

    def function(
        self,
        kind: Hashable,
        name: str,
        inputs: Hashable,
        trace: Callable[[], ConcreteFunction],
        variables: Sequence[tf.Variable],
    ) -> Callable[[tf.Tensor | tf.data.Iterator], Outputs]:
        """A function of the model that `variables` belong to.

        Args:
            kind: all that decides the graph of a model of given inputs, but for the variables.
            name: of the function among those of a model.
            inputs: what the function is traced for.
            trace: makes it, of one argument; called only if there is none of this kind.
            variables: all that the function may read or write, in an order that is the same in each model.
        """
        handles = [variable.handle for variable in variables]
        key = kind, name, inputs, tuple((tuple(variable.shape), str(variable.dtype)) for variable in variables)
        kept = self._kept.pop(key, None) or _Trace(trace(), handles)
        if not kept.is_free:
            return kept.function
        self._kept[key] = kept  # as the latest
        if len(self._kept) > _NUM_KEPT:
            del self._kept[next(iter(self._kept))]
        return _Bound(kept, handles)

    def release(self) -> None:
        """Lets go of the variables of the last model; the traces stay."""
        for kept in self._kept.values():
            kept.bind(None, [])


class _Trace:
    """A concrete function, with the place of each of its captures among the variables of a model."""

    def __init__(self, function: ConcreteFunction, handles: list[tf.Tensor]) -> None:
        self.function = function
        places = {id(handle): place for place, handle in enumerate(handles)}
        self.places = [places.get(id(capture), -1) for capture in function.captured_inputs]
        self.is_free = -1 not in self.places and not _bound_operations(function.graph.as_graph_def())
        self.user: object = None
        if self.is_free:
            _forget_captures(function.graph)

    def bind(self, user: object, handles: list[tf.Tensor]) -> None:
        """From now on the function is that of the variables with these handles."""
        self.user = user
        self.function.set_external_captures([handles[place] for place in self.places] if handles else [])


class _Bound:
    """A trace as a function of one model, whoever has called it in the meantime."""

    def __init__(self, trace: _Trace, handles: list[tf.Tensor]) -> None:
        self._trace, self._handles = trace, handles

    def __call__(self, inputs: tf.Tensor | tf.data.Iterator) -> Outputs:
        if self._trace.user is not self:
            self._trace.bind(self, self._handles)
        return self._trace.function(inputs)


def _forget_captures(graph: tf.Graph) -> None:
    """Lets go of what a graph was traced with, which would keep the first model's memory."""
    graph.function_captures.reset_captures([], [])
    if graph.captures:  # asking for them renews a list that TensorFlow keeps
        raise RuntimeError("TensorFlow keeps what a function captures in another place than it did.")


def _bound_operations(graph: tf.compat.v1.GraphDef) -> list[str]:
    """Kinds of operations, in a graph and the functions that it calls, that are tied to where they were traced."""
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return [node.op for nodes in bodies for node in nodes if any(name in node.attr for name in _BOUND)]
