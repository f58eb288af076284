"""Finished cells without training: drawn embeddings in the form of run directories."""

import json

import numpy as np
import pytest

from experiments.reports import UnitRun


class DrawnCells:
    """Answers for every cell that `value_of` gives a validation MAP@R for; None: the cell is missing."""

    dataset, problems = None, ()

    def __init__(self, folder, value_of):
        self.folder, self.value_of = folder, value_of

    def unit(self, cell):
        value = self.value_of(cell)
        if value is None:
            return None
        path = self.folder / cell.config.hash("drawn") / f"fold{cell.fold}-repeat{cell.repeat}"
        if not path.exists():
            path.mkdir(parents=True)
            labels = np.repeat(np.arange(5), 8)
            noise = np.random.default_rng(cell.fold).normal(size=(40, 5)).astype(np.float32)
            np.savez(path / "test_embeddings.npz", queries=np.eye(5)[labels] + (1 - value) * noise, query_labels=labels)
            if "pads" in cell.config.loss:
                np.savez(path / "sampling.npz", probabilities=np.full((3, cell.config.pads_bins), 0.5))
        steps = min(cell.config.max_steps, 1000)
        result = {
            "validation": {"best": {cell.config.monitor: value, "step": steps // 2}},
            "test": {"MAP@R": value - 0.1, "P@1": 0.5},
            "untrained": {"MAP@R": 0.05, "P@1": 0.1},
            "steps": steps,
            "train_seconds": 50.0,
        }
        if cell.config.method == "ccp":
            lengths = [steps] if cell.config.ccp_max_problems else [steps // 2, steps // 4, steps // 4]
            result["problems"] = [{"steps": length} for length in lengths]
        (path / "result.json").write_text(json.dumps(result))
        return UnitRun(path, cell.fold, cell.repeat, cell.config.as_dict(), result)


@pytest.fixture
def drawn_cells(tmp_path):
    folder = tmp_path / "drawn"
    folder.mkdir()
    return lambda value_of: DrawnCells(folder, value_of)
