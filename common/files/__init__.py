"""Files that survive a kill at any moment, locks, and checks of content."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.files.arrays import (
        FORMAT_VERSION as FORMAT_VERSION,
        OTHER_VERSION as OTHER_VERSION,
        DamagedFile as DamagedFile,
        check_unpacked_size as check_unpacked_size,
        format_objection as format_objection,
        read_arrays as read_arrays,
        write_arrays as write_arrays,
    )
    from common.files.atomic import (
        check_output_file as check_output_file,
        check_output_folder as check_output_folder,
        default_cache_dir as default_cache_dir,
        errors_name as errors_name,
        file_digest as file_digest,
        mark_used as mark_used,
        remove_temporary_files as remove_temporary_files,
        replace_file as replace_file,
        sync_folder as sync_folder,
        target_of as target_of,
        write_atomically as write_atomically,
        write_text as write_text,
    )
    from common.files.contents import (
        Array as Array,
        Maybe as Maybe,
        Number as Number,
        checked as checked,
        difference as difference,
    )
    from common.files.json import (
        parsed_object as parsed_object,
        read_json as read_json,
        read_json_lines as read_json_lines,
        write_json as write_json,
    )
    from common.files.locks import hold_lock as hold_lock, is_locked as is_locked, lock_file as lock_file

import_when_used(__name__)
