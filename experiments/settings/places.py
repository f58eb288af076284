"""The folders of one command, and its memory for decoded images."""

from __future__ import annotations

import dataclasses

DECODED_IMAGES_MB = 512  # of the images of evaluations that a unit keeps in memory


@dataclasses.dataclass(frozen=True)
class Places:
    """Folders of data, prepared files and runs; they never change a result.

    Each is the flag of its name, which `--help` describes; `study` is that of `--record`. No `cache_dir` stands for
    `default_cache_dir()`.
    """

    runs_dir: str = "runs"
    cache_dir: str | None = None
    data_dir: str | None = None
    decoded_images_mb: int = DECODED_IMAGES_MB
    allow_cpu: bool = False
    study: str | None = None
    replace: bool = False
