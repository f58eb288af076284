"""Size and digests of a published file."""

from __future__ import annotations

import os
from dataclasses import dataclass

from common.files.atomic import file_digest


@dataclass(frozen=True)
class Fingerprint:
    """Size and digests of a file as published; None if unpublished.

    Args:
        size: in bytes.
        sha256: hexadecimal, lower case; possibly only its first digits.
        md5: the same. It finds damage, but not deliberate forgery; checked if there is no SHA-256.
    """

    size: int | None = None
    sha256: str | None = None
    md5: str | None = None

    @property
    def has_digest(self) -> bool:
        """True if the contents can be checked."""
        return self.sha256 is not None or self.md5 is not None

    def complaint(self, path: str) -> str | None:
        """Return a phrase for the difference from the published file, or None.

        None may also mean that nothing was published to compare with.
        """
        size = os.path.getsize(path)
        if self.size is not None and size != self.size:
            return f"it has {size:,} bytes, the published file has {self.size:,}"
        algorithm, published = ("sha256", self.sha256) if self.sha256 else ("md5", self.md5)
        if published is None:
            return None
        digest = file_digest(path, algorithm)
        if digest.startswith(published):
            return None
        return f"its {algorithm} is {digest}, that of the published file {published}"

    def describe(self) -> str:
        """Return the name of the check that a file passed, for reports."""
        if self.sha256:
            return "sha256 as published"
        if self.md5:
            return "md5 as published (no sha256 is published)"
        return "size as published (no digest is published)" if self.size else "nothing to compare with is published"
