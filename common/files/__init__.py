"""Files that survive a kill at any moment: atomic writes, JSON objects, named arrays."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.files.arrays import (
        FORMAT_VERSION,
        OTHER_VERSION,
        DamagedFile,
        format_objection,
        read_arrays,
        write_arrays,
    )
    from common.files.atomic import write_atomically, write_text
    from common.files.json import parsed_object, read_json, write_json

__all__ = [
    "FORMAT_VERSION",
    "OTHER_VERSION",
    "DamagedFile",
    "format_objection",
    "parsed_object",
    "read_arrays",
    "read_json",
    "write_arrays",
    "write_atomically",
    "write_json",
    "write_text",
]
import_when_used(__name__)
