"""Trainings that stop as if somebody had pressed Ctrl-C."""

from common.records import RunDirectory


def stop_after_second_checkpoint(monkeypatch):
    """Stops the training that comes next once its second checkpoint is on disk; `monkeypatch.undo()` lets it go on."""
    write, saves = RunDirectory.write_checkpoint, []

    def stopping(self, arrays):
        write(self, arrays)
        saves.append(1)
        if len(saves) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunDirectory, "write_checkpoint", stopping)
