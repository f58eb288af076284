"""Parallel jobs on all images of a data set; errors name every failed image."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from common.errors import InvalidInput, invalid
from common.progress import progress_bar

_NUM_SHOWN = 5  # unreadable images that an error names
_WAITING_PER_THREAD = 64  # jobs that are made before they are begun


def run_image_jobs(jobs: Iterable[Callable[[], object]], description: str, total: int) -> None:
    """Call each job once in parallel threads (decoding and resizing release the interpreter).

    Args:
        jobs: functions to call, taken as threads become free.
        description: for the progress bar.
        total: number of jobs; with 0 nothing happens.

    Raises:
        InvalidInput: of all jobs that raised it, after the others have been done; or the cache cannot be written.
    """
    if total == 0:
        return
    unreadable = []
    num_threads = os.cpu_count() or 1
    pool = ThreadPoolExecutor(max_workers=num_threads)
    try:
        begun = _begun(pool, jobs, _WAITING_PER_THREAD * num_threads)
        for job in progress_bar(begun, desc=description, total=total, unit="image"):
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


def _begun(pool: ThreadPoolExecutor, jobs: Iterable[Callable[[], object]], most: int) -> Iterator[Future]:
    """Yield the jobs in order, started at most `most` ahead of the consumer."""
    waiting: deque[Future] = deque()
    for job in jobs:
        waiting.append(pool.submit(job))
        if len(waiting) == most:
            yield waiting.popleft()
    yield from waiting


def cannot_write_cache(error: OSError) -> InvalidInput:
    """Return the error for a cache folder that cannot be written."""
    return invalid(
        "--cache_dir",
        received=error.filename or str(error),
        expected=f"a folder with room that can be written ({error.strerror or error})",
        fix="Free some space or name another folder; what is prepared already is kept.",
    )
