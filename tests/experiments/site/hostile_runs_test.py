import json

import numpy as np

from experiments.rows.run_folders import collect
from experiments.site.groups import read_studies
from experiments.site.report_folder import DrawingOptions, write_report

OPTIONS = DrawingOptions(num_queries=2, num_neighbors=2, num_images=1, num_prototypes=1, num_classes=3)
NAN = float("nan")


def change(path, name, **changes):
    stored = json.loads((path / name).read_text())
    (path / name).write_text(json.dumps({**stored, **changes}))


def arrays(path, **changes):
    with np.load(path / "test_embeddings.npz") as archive:
        stored = {name: archive[name] for name in archive.files}
    np.savez(path / "test_embeddings.npz", **{**stored, **changes})


HOSTILE = {
    "text for a metric": (
        lambda p: change(p, "result.json", test={"P@1": 0.5, "MAP@R": "high"}),
        "its test MAP@R is &#x27;high&#x27;, expected a number from 0 to 1",
    ),
    "text in the curve": (
        lambda p: (p / "metrics.jsonl").write_text('{"step": 20, "validation": {"MAP@R": "x"}}'),
        "whose step or validation is no number",
    ),
    "text for a format": (lambda p: arrays(p, format_version="x"), "has format x, this version of the code reads 1"),
    "fewer labels": (lambda p: arrays(p, query_labels=np.arange(3)), "does not hold finite queries"),
    "NaN embeddings": (lambda p: arrays(p, queries=np.full((30, 8), NAN)), "does not hold finite queries"),
    "other queries": (
        lambda p: arrays(p, queries=np.eye(4), query_labels=np.array([1, 1, 2, 2])),
        "of other queries than those of",
    ),
    "another dimension": (lambda p: change(p, "config.json", embedding_dim=9), "config.json was changed"),
}


def test_the_report_names_each_and_shows_the_rest(empty_study):
    folders = {}
    for number, (kind, (spoil, _)) in enumerate(HOSTILE.items()):
        paths = [empty_study.finish(empty_study.config("pnca", "gap", seed=number), fold) for fold in (0, 1)]
        spoil(paths[0])
        folders[kind] = paths[0].parent.name
    for fold in (0, 1):
        empty_study.finish(empty_study.config("c2", "gap"), fold)
    output = empty_study.folder / "report"
    write_report(empty_study.folder, output, empty_study, OPTIONS)
    pages = "".join(path.read_text() for path in output.glob("*.html")).replace("&#39;", "&#x27;")
    for kind, folder in folders.items():
        assert [line for line in pages.splitlines() if folder in line and HOSTILE[kind][1] in line], kind
    found = [row for study in read_studies(collect(empty_study.folder))[0] for row in study.rows]
    (row,) = [row for row in found if row.method == "c2+gap"]
    assert all(np.isfinite(cell.mean) for cell in row.cells.values())
