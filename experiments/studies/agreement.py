"""Agreement of a benchmark's ranking of methods with the printed tables.

Regenerates: nothing printed: recorded studies (`results/`) beside thesis tables 3.1 and 5.1 and table 2.2 of
    the "Revisiting" benchmark. Rank correlations with intervals, the ceiling (the printed data sets among each other),
    and the signs of paired effects (memory, CCP, GSP, regularisation).
Command: python -m experiments.table --id=agreement --study=results/table_5_1
Expected: a stand-in ranks as the printed data sets rank among each other: Spearman .28 to .71 over the 15 rows of table
    5.1 (128-D MAP@R). The rule of the verdict is in `experiments/studies/rank_agreement.py`, and below the table.
Cost: no training; seconds on 2 CPU cores.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from absl import flags

from common.errors import InvalidInput
from experiments.plans.study import write_table
from experiments.plans.study_command import refuse_training
from experiments.rows.store import ROWS, StudyRows
from experiments.settings import flags as experiment_flags
from experiments.studies.agreement_tables import draw_agreements, ranking_table, sign_table
from experiments.studies.study_agreement import TableAgreement, study_agreement
from experiments.studies.tables import AGREEMENT

_TITLE = "Rank correlation of benchmarks with printed tables"
_SIGNS_TITLE = "Paired effects of benchmarks and of printed tables"
_RESULTS = "results"


def run_agreement(values: flags.FlagValues) -> None:
    """Compare the `--study` studies, or all comparable ones, with printed tables.

    Args:
        values: of the command line.

    Raises:
        InvalidInput: a flag that would have no effect, or a study that cannot be compared.
    """
    refuse_training(values, AGREEMENT)
    agreements = _given_agreements(values.study) if values["study"].present else _found_agreements()
    folder = pathlib.Path(values.runs_dir) / "tables" / AGREEMENT
    print(write_table(ranking_table(agreements, _TITLE), folder, "table_agreement"))
    if any(of.effects for of in agreements):
        print(write_table(sign_table(agreements, _SIGNS_TITLE), folder, "table_agreement_signs"))
    draw_agreements(agreements, folder / "table_agreement.png", _TITLE)
    print(f"Folder: {folder}")


def _given_agreements(folders: Sequence[str]) -> list[TableAgreement]:
    """Compare the given studies with the printed tables."""
    if not folders:
        raise InvalidInput("Invalid --study: received an empty list, expected folders such as results/table_5_1.")
    experiment_flags.check_distinct("--study", [str(pathlib.Path(folder)) for folder in folders])
    return [agreement for folder in folders for agreement in study_agreement(StudyRows(folder))]


def _found_agreements() -> list[TableAgreement]:
    """Compare all comparable studies below `results`."""
    found, reasons = [], []
    for path in sorted(pathlib.Path(_RESULTS).glob(f"*/{ROWS}")):
        try:
            found += study_agreement(StudyRows(path.parent))
        except InvalidInput as error:
            reasons.append(str(error))
    if not found:
        seen = "\n".join(reasons) or f"There is no {_RESULTS}/<study>/{ROWS}: give --study=FOLDER."
        raise InvalidInput(f"No recorded study can be compared with a printed table.\n{seen}")
    return found
