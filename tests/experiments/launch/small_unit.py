"""A unit without TensorFlow: counts steps into a checkpoint, then writes its result.

python tests/experiments/launch/small_unit.py FOLDER [STEPS [SECONDS_PER_STEP [FAILURE]]]

It holds its folder's lock as a run does, resumes from its checkpoint, and ends with exit code 143 after SIGTERM.
"""

import fcntl
import json
import os
import pathlib
import signal
import sys
import time

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    steps, seconds, failure = [*sys.argv[2:], *("4", "0", "")[len(sys.argv) - 2 :]]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("\nerror: Another process is working on it.", flush=True)
            sys.exit(2)
        checkpoint = folder / "checkpoint"
        done = int(checkpoint.read_text()) if checkpoint.exists() else 0
        print(f"begins at step {done} with {os.environ.get('TF_NUM_INTRAOP_THREADS')} threads", flush=True)
        while done < int(steps):
            time.sleep(float(seconds))
            done += 1
            part = folder / "part"
            part.write_text(str(done))
            part.rename(checkpoint)
        if failure:
            print(f"\nerror: {failure}\nlast line", flush=True)
            sys.exit(2)
        (folder / "result.json").write_text(json.dumps({"status": "finished", "steps": done}))
