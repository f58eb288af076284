"""What an offline run of W&B has written, read by W&B's own messages; 0.31 has no reader in Python any more."""

from __future__ import annotations

import json
import pathlib
import struct

BLOCK, HEADER, PREFIX = 32768, 7, 7  # LevelDB's log format, after the file's own seven bytes


def records(path: pathlib.Path) -> list:
    """The messages of one `run-ID.wandb`."""
    from wandb.proto import wandb_internal_pb2

    found = []
    for content in contents(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(content)
        found.append(record)
    return found


def contents(data: bytes) -> list[bytes]:
    assert data[:4] == b":W&B"
    place, found, parts = PREFIX, [], []
    while place + HEADER <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + HEADER])
        parts.append(data[place + HEADER : place + HEADER + length])
        place += HEADER + length
        if kind in (1, 4):  # whole, or the last part
            found.append(b"".join(parts))
            parts = []
    return found


def runs(folder: pathlib.Path) -> list[list]:
    """The messages of each offline run in a folder, in the order in which they were begun."""
    files = sorted(folder.glob("wandb/offline-run-*/run-*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    return [records(path) for path in files]


def history(messages: list) -> list[dict]:
    """The points of curves, as one dictionary each."""
    rows = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in message.history.item}
        for message in messages
        if message.WhichOneof("record_type") == "history"
    ]
    return [{name: value for name, value in row.items() if name not in ("_timestamp", "_runtime")} for row in rows]


def summary(messages: list) -> dict:
    """The last values that were given as the result."""
    found = {}
    for message in messages:
        if message.WhichOneof("record_type") == "summary":
            found |= {
                item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in message.summary.update
            }
    return found
