"""Reference sets for comparison with a batch, and the layers that provide them."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.references.comparison import ANCHORS, Comparison, compare
    from common.references.cross_batch_memory import CrossBatchMemory
    from common.references.proxy_bank import PROXY_INITIALIZERS, ProxyBank
    from common.references.reference_set import Pairs, References

__all__ = [
    "ANCHORS",
    "PROXY_INITIALIZERS",
    "Comparison",
    "CrossBatchMemory",
    "Pairs",
    "ProxyBank",
    "References",
    "compare",
]
import_when_used(__name__)
