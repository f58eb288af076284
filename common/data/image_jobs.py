"""Does something with every image of a data set, in threads, and names all images with which it cannot be done."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from common.errors import InvalidInput, invalid
from common.progress import progress_bar

_NUM_SHOWN = 5  # unreadable images that an error names


def run_image_jobs(jobs: Sequence[Callable[[], object]], description: str) -> None:
    """Calls each job once, in parallel threads (decoding, resizing and encoding release the interpreter).

    Args:
        jobs: what is to be called; nothing happens where there are none.
        description: for the progress bar.

    Raises:
        InvalidInput: of all jobs that raised it, after the others have been done; or the cache cannot be written.
    """
    if not jobs:
        return
    unreadable = []
    pool = ThreadPoolExecutor(max_workers=os.cpu_count())
    try:
        begun = [pool.submit(job) for job in jobs]
        for job in progress_bar(as_completed(begun), desc=description, total=len(begun), unit="image"):
            try:
                job.result()
            except OSError as error:
                raise cannot_write_cache(error) from error
            except InvalidInput as error:
                unreadable.append(str(error))
    finally:
        pool.shutdown(cancel_futures=True)
    if unreadable:
        unreadable.sort()
        more = f" And {len(unreadable) - _NUM_SHOWN} more images." if len(unreadable) > _NUM_SHOWN else ""
        raise InvalidInput(" ".join(unreadable[:_NUM_SHOWN]) + more)


def cannot_write_cache(error: OSError) -> InvalidInput:
    """The error for a cache folder that cannot be written."""
    return invalid(
        "--cache_dir",
        received=error.filename or str(error),
        expected=f"a folder with room that can be written ({error.strerror or error})",
        fix="Free some space or name another folder; what is prepared already is kept.",
    )
