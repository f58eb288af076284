"""The folders of one command, and its memory for decoded images."""

from __future__ import annotations

import dataclasses

DECODED_IMAGES_MB = 512  # of the images of evaluations that a unit keeps in memory
CACHE_GB = 50.0  # of all caches


@dataclasses.dataclass(frozen=True)
class Places:
    """Folders of data, prepared files and runs; they never change a result.

    Attributes:
        runs_dir: the folder for results.
        cache_dir: the folder for prepared images and features, or None for the default.
        data_dir: the folder of the data set's official files, or None.
        decoded_images_mb: MB (10^6 bytes) of decoded images that a unit keeps in memory for evaluations; 0: none.
        cache_gb: GB (10^9 bytes) of caches that stay after a unit, beside those in use.
        allow_cpu: whether more than a day of training may begin without a GPU.
        study: the folder of recorded rows to which finished runs are added, or None.
        replace: whether new rows replace recorded ones with the same key.
    """

    runs_dir: str = "runs"
    cache_dir: str | None = None
    data_dir: str | None = None
    decoded_images_mb: int = DECODED_IMAGES_MB
    cache_gb: float = CACHE_GB
    allow_cpu: bool = False
    study: str | None = None
    replace: bool = False
