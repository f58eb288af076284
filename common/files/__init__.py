"""Files that survive a kill at any moment, locks, and checks of content."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.files.arrays import (
        FORMAT_VERSION,
        OTHER_VERSION,
        DamagedFile,
        check_unpacked_size,
        format_objection,
        read_arrays,
        write_arrays,
    )
    from common.files.atomic import (
        check_output_file,
        check_output_folder,
        default_cache_dir,
        errors_name,
        file_digest,
        mark_used,
        remove_temporary_files,
        replace_file,
        sync_folder,
        target_of,
        write_atomically,
        write_text,
    )
    from common.files.contents import Array, Maybe, Number, checked, difference
    from common.files.json import parsed_object, read_json, read_json_lines, write_json
    from common.files.locks import hold_lock, is_locked, lock_file

__all__ = [
    "FORMAT_VERSION",
    "OTHER_VERSION",
    "Array",
    "DamagedFile",
    "Maybe",
    "Number",
    "check_output_file",
    "check_output_folder",
    "check_unpacked_size",
    "checked",
    "default_cache_dir",
    "difference",
    "errors_name",
    "file_digest",
    "format_objection",
    "hold_lock",
    "is_locked",
    "lock_file",
    "mark_used",
    "parsed_object",
    "read_arrays",
    "read_json",
    "read_json_lines",
    "remove_temporary_files",
    "replace_file",
    "sync_folder",
    "target_of",
    "write_arrays",
    "write_atomically",
    "write_json",
    "write_text",
]
import_when_used(__name__)
