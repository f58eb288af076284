"""Finished runs of two methods on a tiny data set, two folds each, and the rows that they leave."""

import pytest

from experiments import reports
from experiments.evidence.extras import ExtrasReader
from experiments.evidence.recording import record
from tests.experiments.tiny_study import TinyStudy


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    study = TinyStudy(tmp_path_factory.mktemp("recorded"))
    for pooling, noise in (("gap", 0.9), ("gsp", 0.6)):
        for fold in (0, 1):
            study.finish(study.config("pnca", pooling), fold, noise=noise)
    return study


@pytest.fixture(scope="session")
def tiny_methods(tiny):
    return reports.collect(tiny.folder)


@pytest.fixture
def recorded(tiny_methods, tmp_path):
    folder = tmp_path / "results" / "tiny"
    record(tiny_methods, folder, ExtrasReader(), command="python -m experiments.fair_eval")
    return folder
