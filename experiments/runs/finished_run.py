"""Repair of finished runs with lost or damaged weights or test embeddings."""

from __future__ import annotations

from common.data import Dataset
from common.files import DamagedFile, write_arrays
from common.progress import write_notice
from common.records import RunDirectory
from common.records.run_directory import TEST_EMBEDDINGS
from common.training.test_embeddings import read_test_embeddings
from experiments.rows.run_rows import check_of_one_run, evaluate_embeddings
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.runs.trained_model import load_trained_model
from experiments.runs.unit import embedded


def mend_finished_run(run: RunDirectory, result: dict, dataset: Dataset, cache_dir: str | None) -> None:
    """Recompute damaged test embeddings from the weights; warn of damaged weights.

    Only training can restore weights. The run's figures do not need them; attention pictures and other metric matrices
    do.

    Args:
        run: a finished one.
        result: its result.
        dataset: that it was trained on, as loaded.
        cache_dir: the folder for prepared images, or `None` for the default.

    Raises:
        InvalidInput: both files are lost, or the weights on disk do not give the figures of the result.
    """
    try:
        read_test_embeddings(run.path, cure="It is rebuilt from the weights.")
    except DamagedFile as error:
        _say(str(error))
        with run.locked():
            write_arrays(run.path / TEST_EMBEDDINGS, _embedded_again(run, result, dataset, cache_dir))
        return
    try:
        run.read_weights()
    except DamagedFile as error:
        _say(f"{error} All figures of the run are whole.")


def _embedded_again(run: RunDirectory, result: dict, dataset: Dataset, cache_dir: str | None) -> dict:
    trained = load_trained_model(run.path, dataset=dataset, cache_dir=cache_dir)
    test, gallery = trained.dataset.test, trained.dataset.gallery
    arrays = embedded(trained.model, EvaluationInputs(trained.config, trained.dataset), test, gallery)
    check_of_one_run(run.path, "weights", evaluate_embeddings(arrays).as_dict(), result.get("test"))
    return arrays


def _say(message: str) -> None:
    write_notice(f"warning: {message}")
