"""Published files: addresses, downloads, checks, safe extraction."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.downloads.acquisition import Acquired as Acquired, acquire as acquire, fetch as fetch
    from common.downloads.archives import Limits as Limits, extract_archive as extract_archive
    from common.downloads.fingerprint import Fingerprint as Fingerprint
    from common.downloads.sources import SOURCES as SOURCES, Source as Source, SourceFile as SourceFile
    from common.downloads.transfer import check_mirror as check_mirror, download as download
    from common.files import file_digest as file_digest

import_when_used(__name__)
