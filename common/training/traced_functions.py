"""Reuse of traced functions between models of the same kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import tensorflow as tf

ConcreteFunction: TypeAlias = tf.types.experimental.ConcreteFunction
Outputs: TypeAlias = "tf.Tensor | dict[str, tf.Tensor]"

# Contents of a trace besides variables: seeds of stateful random numbers, and Python functions.
_BOUND = ("seed", "seed2", "token")
_NUM_KEPT = 12  # three functions each of models of four kinds: folds may differ in the number of classes


class TracedFunctions:
    """Reuses the latest traces of functions across models of one structure.

    Tracing a training step takes longer than a hundred steps of a small network. A trace is a graph with variables as
    inputs. Given those of another model of the same kind, it computes the same as a trace of that model. A trace that
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
        """Return a function of the model that owns `variables`.

        Args:
            kind: everything except the variables that decides the graph of a model of given inputs.
            name: of the function among those of a model.
            inputs: specification of the inputs to trace for.
            trace: makes the trace, of one argument; called only if there is none of this kind.
            variables: all that the function may read or write, in the same order in each model.
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
        """Release the variables of the last model, and keep the traces."""
        for kept in self._kept.values():
            kept.bind(None, [])


class _Trace:
    """A concrete function, with its captures' places among a model's variables."""

    def __init__(self, function: ConcreteFunction, handles: list[tf.Tensor]) -> None:
        self.function = function
        places = {id(handle): place for place, handle in enumerate(handles)}
        self.places = [places.get(id(capture), -1) for capture in function.captured_inputs]
        self.is_free = -1 not in self.places and not _bound_operations(function.graph.as_graph_def())
        self.user: object = None
        if self.is_free:
            _forget_captures(function.graph)

    def bind(self, user: object, handles: list[tf.Tensor]) -> None:
        """Bind the function to the variables with these handles."""
        self.user = user
        self.function.set_external_captures([handles[place] for place in self.places] if handles else [])


class _Bound:
    """A trace as a function of one model, independent of later callers."""

    def __init__(self, trace: _Trace, handles: list[tf.Tensor]) -> None:
        self._trace, self._handles = trace, handles

    def __call__(self, inputs: tf.Tensor | tf.data.Iterator) -> Outputs:
        if self._trace.user is not self:
            self._trace.bind(self, self._handles)
        return self._trace.function(inputs)


def _forget_captures(graph: tf.Graph) -> None:
    """Release a graph's captures, which would keep the first model in memory."""
    graph.function_captures.reset_captures([], [])
    if graph.captures:  # asking for them renews a list that TensorFlow keeps
        raise RuntimeError("TensorFlow keeps what a function captures in another place than it did.")


def _bound_operations(graph: tf.compat.v1.GraphDef) -> list[str]:
    """Return the kinds of operations tied to their place of tracing.

    It searches a graph and the functions that it calls.
    """
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    return [node.op for nodes in bodies for node in nodes if any(name in node.attr for name in _BOUND)]
