"""An archive whose header promises more than any memory holds."""

import pathlib


def state_huge_array(path: pathlib.Path) -> None:
    """Exchanges the shape that an array's header states; the archive's checksum is left as it was."""
    content = path.read_bytes()
    changed = content.replace(b"(100000,), }" + 7 * b" ", b"(5000000000000,), }")
    assert changed != content
    path.write_bytes(changed)
