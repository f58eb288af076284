"""Published files: addresses, downloads, checks, safe extraction."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.downloads.acquisition import Acquired, acquire, fetch
    from common.downloads.archives import Limits, extract_archive
    from common.downloads.fingerprint import Fingerprint
    from common.downloads.sources import SOURCES, Source, SourceFile
    from common.downloads.transfer import check_mirror, download
    from common.files import file_digest

__all__ = [
    "SOURCES",
    "Acquired",
    "Fingerprint",
    "Limits",
    "Source",
    "SourceFile",
    "acquire",
    "check_mirror",
    "download",
    "extract_archive",
    "fetch",
    "file_digest",
]
import_when_used(__name__)
