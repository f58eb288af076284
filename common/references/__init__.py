"""Reference sets for comparison with a batch, and the layers that provide them."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.references.comparison import ANCHORS as ANCHORS, Comparison as Comparison, compare as compare
    from common.references.cross_batch_memory import CrossBatchMemory as CrossBatchMemory
    from common.references.proxy_bank import PROXY_INITIALIZERS as PROXY_INITIALIZERS, ProxyBank as ProxyBank
    from common.references.reference_set import Pairs as Pairs, References as References

import_when_used(__name__)
