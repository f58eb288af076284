"""The stored values of the nets: `digests.json`, `trials.json` and `exports.json` beside this file.

    python -m tests.nets --write        # all again, after a change that is meant; then read `git diff tests/nets`
    python -m tests.nets                # compare; exit code 1 with the differing blocks and names
    python -m tests.nets --settings     # compare hashes, refusals and explained values alone, without TensorFlow
    python -m tests.nets --dump=FILE    # every case with its outcome; `diff` two such files to see what has changed

A dump of another commit: `cd OTHER_CHECKOUT; PYTHONPATH=THIS_CHECKOUT python -m tests.nets --dump=FILE`.

The nets guard the redesign and go with its last step.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

from tests.nets import settings

FOLDER = pathlib.Path(__file__).parent


def stored(name: str) -> dict:
    """Return a stored file's content."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def differing(name: str, before: dict, now: dict) -> list[str]:
    """Return a line for each entry that differs."""
    return [f"{name}: {key}" for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]


def write(name: str, content: dict) -> None:
    """Store a file, one entry a line, or one line of a longer entry."""
    entries = [f"{json.dumps(key)}: {json.dumps(value, indent=0)}" for key, value in sorted(content.items())]
    (FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


def main() -> int:
    """Write, dump or compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.nets", description=__doc__)
    parser.add_argument("--write", action="store_true", help="store the present values")
    parser.add_argument("--settings", action="store_true", help="compare settings alone")
    parser.add_argument("--dump", type=pathlib.Path, help="write all cases of the settings to this file")
    chosen = parser.parse_args()
    trials = settings.all_trials() if chosen.write else stored("trials")
    blocks = dict(settings.lines(trials))
    if chosen.dump:
        cases = [f"{name}: {line}" for name, lines in blocks.items() for line in lines]
        chosen.dump.write_text("\n".join(cases) + "\n", encoding="utf-8")
        return 0
    digests = {name: settings.digest(lines) for name, lines in blocks.items()}
    found = [] if chosen.write else differing("settings", stored("digests"), digests)
    if not chosen.settings:
        from tests.nets import exports  # imports TensorFlow

        names = exports.exported()
        before = stored("exports") if (FOLDER / "exports.json").exists() else {}
        gone = exports.unlisted_removals(before, names)
        if chosen.write:
            for name, content in {"trials": trials, "digests": digests, "exports": names}.items():
                write(name, content)
        else:
            found += differing("exports", before, names)
        found += [f"exports: {name} is gone, and REMOVED of exports.py does not say so" for name in gone]
    print("\n".join(found) or f"{len(blocks)} blocks of {sum(map(len, blocks.values())):,} cases: as stored")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
