"""What a batch of embeddings is compared with."""

from typing import Any, NamedTuple


class References(NamedTuple):
    """A labelled set of vectors that a metric loss compares a batch with.

    The queue of a cross-batch memory, class proxies and chosen representatives of the classes are all such sets.
    """

    embeddings: Any  # floats [references, dim], not normalised
    labels: Any  # integers [references]
    valid: Any = None  # bool [references]: the rows that take part; None: all of them
