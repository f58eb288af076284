import csv
import dataclasses

import pytest

from experiments.published.values import published_value
from experiments.reports.intervals import interval
from experiments.reports.plain_tables import TERMINAL_WIDTH, display_width
from experiments.reports.tables import (
    SHORT_VERDICT_NOTE,
    TableCell,
    TableRow,
    compared,
    figures_table,
)
from experiments.reports.verdicts import Target, published_difference


def markdown(rows, title=""):
    return figures_table(rows, title).as_markdown()


def text_of(rows, title="", notes=()):
    return figures_table(rows, title, notes).as_text()


def latex(rows, title=""):
    return figures_table(rows, title).as_latex()


SINGLE, JOINED = ("128-D", "MAP@R"), ("512-D", "P@1")


def cell(estimate, published=None, reasons=()):
    return dataclasses.replace(estimate, target=Target(published, reasons=tuple(reasons), error=(0.0, 1)))


def rows():
    trained = TableCell(0.43961, 0.00144, interval(0.43961, (0.008**2, 299), (0.001**2, 8), 0.95))
    joined = TableCell(0.7396, None, interval(0.7396, (0.007**2, 299), None, 0.95))
    doubtful = published_value("ICCV-2", "sop", "C2+DeLF", 128, "P@1")
    lost = published_value("ICCV-2", "cub200", "C2+DeLF", 512, "P@1")
    return [
        TableRow("untrained", {SINGLE: TableCell(0.162), JOINED: TableCell(0.4412)}),
        TableRow(
            "pnca+gsp",
            {
                SINGLE: cell(trained, published_value("5.1", "sop", "PNCA+GSP", 128, "MAP@R")),
                JOINED: cell(joined, published_value("5.1", "sop", "PNCA+GSP", 512, "P@1"), ["budget is demo"]),
            },
        ),
        TableRow("c2|delf & 100 %", {SINGLE: cell(trained, doubtful), JOINED: cell(joined, lost, ["budget is demo"])}),
        TableRow("half done", {SINGLE: cell(trained, None, [])}),
    ]


EXPECTED = """\
fair protocol on sop
---------------------------------------------------------------
method                   128-D MAP@R              512-D P@1
---------------------------------------------------------------
untrained                      16.20                  44.12
pnca+gsp        43.96 [42.37, 45.55]  73.96 [72.58, 75.34]†
c2|delf & 100 % 43.96 [42.37, 45.55]  73.96 [72.58, 75.34]†
half done       43.96 [42.37, 45.55]                      -
---------------------------------------------------------------

---------------------------------------------------------------
figure            ours                published         verdict
---------------------------------------------------------------
pnca+gsp
  128-D MAP@R    43.96             43.95 ± 0.06      reproduced
  512-D P@1      73.96             75.68 ± 0.11  not comparable

c2|delf & 100 %
  128-D MAP@R    43.96  45.53 ± 0.18 (doubtful)  not comparable
  512-D P@1      73.96                     lost  not comparable
---------------------------------------------------------------
"""


def test_text_has_figures_then_published_values_with_verdicts():
    text = text_of(rows(), "fair protocol on sop", ["A note."])
    found, expected = ([line.split() for line in of.splitlines() if "--" not in line] for of in (text, EXPECTED))
    assert found[: len(expected)] == expected
    assert " ".join(text.split()).endswith("spread of training is unknown. A note.")
    assert SHORT_VERDICT_NOTE in text


def test_details_number_the_reasons_of_verdicts():
    lines = markdown(rows()).splitlines()
    assert "| *95 % interval* | [42.37, 45.55] | [72.58, 75.34]† |" in lines
    assert "| *published* | 43.95 ± 0.06 | 75.68 ± 0.11 |" in lines
    assert "| *minus published* | +0.01 [-0.18, 0.20] | - |" in lines
    assert "| *verdict* | reproduced | not comparable [1] |" in lines
    assert "| *margin* | 0.50 | - |" in lines
    assert "| *verdict* | not comparable [2] | not comparable [3] |" in lines
    assert "[1] budget is demo  " in lines
    assert any(line.startswith("[2] the printed cell is doubtful (SUSPECT") for line in lines)
    assert "[3] the printed cell is lost (cell empty in the text); budget is demo  " in lines
    assert "[4] no published figure  " in lines
    assert any(line.startswith("† Interval for new test classes only") for line in lines)
    half_done = lines[lines.index("| **half done** | 43.96 ± 0.14 | - |") :]
    assert half_done[1:3] == ["| *95 % interval* | [42.37, 45.55] | - |", "| *verdict* | not comparable [4] | - |"]


METHODS = [f"lifted_generalized+distance+xbm+{number}+gmp+gsp" for number in range(7)] + ["图像检索 é +gsp"]


def test_the_widest_tables_fit_a_terminal():
    """Eight methods with long names, four recalls of two embeddings, differences and published values."""
    bounds = interval(0.0112, (0.002**2, 299), (0.001**2, 8), 0.95)
    printed = published_value("5.1", "sop", "PNCA+GSP", 128, "MAP@R")
    of_figure = cell(TableCell(0.4396, 0.0014, bounds), printed)
    of_difference = TableCell(0.0112, None, bounds, of_figure.target, is_difference=True)
    columns = [(f"{kind}-D", f"R@{10**k}") for kind in ("single 128", "concatenated 512") for k in range(4)]
    cells = dict.fromkeys(columns, of_figure)
    cells |= {(f"{kind} minus {METHODS[0]}", "MAP@R"): of_difference for kind in ("single", "concatenated")}
    text = text_of([TableRow(method, cells) for method in METHODS], f"Long title {'of a study ' * 12}", ["图像" * 60])
    assert max(map(display_width, text.splitlines())) <= TERMINAL_WIDTH
    for found, count in {"43.96 ": 14, "+1.12* [0.67, 1.57]": 2, " 43.95 ± 0.06  reproduced": 8, "below": 2}.items():
        assert text.count(found) == 8 * count, found
    assert "single 128-D R@1000" in text  # beside its published value


def test_text_without_anything_to_compare_is_one_line_a_method():
    assert text_of(rows()[:1]).splitlines() == [
        "---------------------------------",
        "method     128-D MAP@R  512-D P@1",
        "---------------------------------",
        "untrained        16.20      44.12",
        "---------------------------------",
    ]


def test_csv_is_tidy_unrounded_percent():
    table = list(csv.DictReader(figures_table(rows()).as_csv().splitlines()))
    assert len(table) == 7
    first, trained = table[0], table[2]
    assert (first["method"], first["mean"], first["std"], first["published"], first["verdict"]) == (
        "untrained",
        "16.2",
        "",
        "",
        "",
    )
    assert (trained["size"], trained["metric"], trained["published_table"]) == ("128-D", "MAP@R", "5.1")
    figures = {name: float(trained[name]) for name in ("mean", "std", "published", "published_std", "difference")}
    assert figures == pytest.approx(
        {"mean": 43.961, "std": 0.144, "published": 43.95, "published_std": 0.06, "difference": 0.011}
    )
    assert (trained["margin"], trained["verdict"], trained["interval_of"]) == (
        "0.5",
        "reproduced",
        "classes and runs",
    )
    assert float(trained["difference_low"]) < 0.011 < float(trained["difference_high"])
    assert table[3]["interval_of"] == "classes only"
    assert float(trained["low"]) < 43.961 < float(trained["high"])
    assert table[5]["verdict"] == "not comparable: the printed cell is lost (cell empty in the text); budget is demo"


@pytest.mark.parametrize(
    ("estimate", "training", "starred"),
    [(0.012, 0.002, True), (-0.012, 0.002, True), (0.005, 0.002, False), (0.012, None, False)],
    ids=["above", "below", "includes_zero", "trained_once"],
)
def test_significant_differences_are_starred(estimate, training, starred):
    bounds = interval(estimate, (0.003**2, 299), training and (training**2, 8), 0.95)
    column = ("minus reference", "MAP@R")
    tested = [TableRow("method", {column: TableCell(estimate, None, bounds, is_difference=True)})]
    alone = [TableRow("method", {SINGLE: cell(TableCell(estimate, None, bounds))})]
    for render in (text_of, markdown, latex):
        assert (f"{100 * estimate:+.2f}*" in render(tested)) == starred
        assert f"{100 * estimate:.2f}*" not in render(alone)
    counted = f"{int(starred)} of 1 tested differences. Any {'other ' * starred}may be chance."
    assert (f"after Holm's correction: {counted}" in text_of(tested)) == (training is not None)
    for render in (markdown, latex):
        assert ("Holm's correction" in render(tested)) == (training is not None)
        assert ("No difference is tested" in render(tested)) == (training is None)
    bare = TableRow("method", {column: TableCell(estimate, is_difference=True)})
    assert f"{100 * estimate:+.2f}" in text_of([bare])
    assert "Starred" not in text_of([bare])  # nothing that a star could be of


def row_of(name, bounds, target=None):
    column = ("minus reference", "MAP@R")
    return TableRow(name, {column: TableCell(bounds.estimate, None, bounds, target, is_difference=True)})


def test_differences_have_a_sign_and_what_the_design_could_have_detected():
    seen = interval(0.012, (0.003**2, 299), (0.002**2, 8), 0.95)
    unseen = interval(-0.001, (0.003**2, 299), None, 0.95)
    same = interval(0.0, (0.0, 299), (0.0, 8), 0.95)
    rows = [
        TableRow("reference", {SINGLE: cell(TableCell(0.4, 0.01, seen))}),
        *(row_of(name, of) for name, of in (("seen", seen), ("unseen", unseen), ("same", same))),
    ]
    text = markdown(rows)
    assert "| **seen** | - | +1.20* |" in text
    assert "| *p, Holm's p* | - | .003, .006 |\n| *detectable* | - | 1.2 |" in text
    assert "[-0.69, 0.49]† |\n| **same**" in text  # not tested: nothing would be detected
    assert "| - | +0.00 |\n| *95 % interval* | - | [0.00, 0.00] |\n\n" in text  # no method differs from itself
    assert "seen - +1.20* [0.47, 1.93] unseen - -0.10 [-0.69, 0.49]†" in " ".join(text_of(rows).split())
    assert "in 80 % of studies" in text
    assert "sqrt((R - 1)/R) of the spread of a fresh collection" in text
    lines = list(csv.DictReader(figures_table(rows).as_csv().splitlines()))
    assert [line["detectable"] for line in lines][0] == ""
    tests = compared(rows)[1].cells["minus reference", "MAP@R"].comparison
    assert [float(lines[1][name]) for name in ("detectable", "p", "p_holm")] == pytest.approx(
        [100 * tests.detectable, tests.p, tests.p_holm]
    )
    assert (lines[2]["p"], lines[2]["p_holm"]) == ("", "")  # no spread of training, no test
    assert "detectable" not in markdown(rows[:1])


def test_a_star_is_after_holm_over_the_table():
    clear, near = (interval(of, (0.001**2, 299), (0.002**2, 8), 0.95) for of in (0.02, 0.006))
    assert "+0.60*" in text_of([row_of("near", near)])
    several = [
        row_of("near", near),
        *(row_of(f"m{index}", near.at(0.95)) for index in range(5)),
        row_of("clear", clear),
    ]
    assert compared(compared(several)) == compared(several)
    assert "+2.00*" in text_of(several)
    assert "for all 7 of this table" in markdown(several)
    many = [row_of("near", near), *(row_of(f"m{i}", interval(0.0, (1e-6, 299), (1.0, 3), 0.95)) for i in range(9))]
    assert "+0.60*" not in text_of(many)
    assert "+0.60" in text_of(many)


def test_differences_have_verdicts_of_their_own():
    printed = [published_value("5.1", "sop", row, 128, "MAP@R") for row in ("PNCA+GSP", "PNCA")]
    target = Target(published_difference(*printed), margin=0.19, error=(0.0, 1))
    bounds = interval(0.0036, (0.003**2, 299), (0.0002**2, 8), 0.95)
    text = markdown([row_of("pnca+gsp", bounds, target)])
    assert (
        "| *published* | +0.38 ± 0.10 |\n| *minus published* | -0.02 [-0.06, 0.02] |\n| *verdict* | reproduced |"
        in text
    )
    assert "| *margin* | 0.19 |" in text
    assert "MAP@R +0.36 +0.38 ± 0.10 reproduced" in " ".join(text_of([row_of("pnca+gsp", bounds, target)]).split())
    noisy = interval(0.0036, (0.003**2, 299), (0.004**2, 8), 0.95)
    assert "| inconclusive |" in markdown([row_of("pnca+gsp", noisy, target)])


def test_intervals_are_cut_where_no_figure_can_lie_and_a_note_says_so():
    inside, beyond = interval(0.5, (0.05**2, 99), None, 0.95), interval(0.9738, (0.05**2, 99), None, 0.95)
    row = TableRow("method", {SINGLE: cell(TableCell(0.9738, None, beyond))})
    for rendered in (markdown([row]), latex([row])):
        assert ", 100.00]" in rendered
        assert "107" not in rendered
        assert "Intervals are cut off at 0 and 100" in " ".join(rendered.split())
    (record,) = csv.DictReader(figures_table([row]).as_csv().splitlines())
    assert (float(record["low"]), float(record["high"])) == (pytest.approx(100 * beyond.low), 100.0)
    uncut = TableRow("method", {SINGLE: cell(TableCell(0.5, None, inside))})
    assert "Intervals are cut" not in markdown([uncut])
    negative = interval(-0.05, (0.05**2, 99), None, 0.95)
    difference = TableRow("method", {SINGLE: TableCell(-0.05, None, negative, is_difference=True)})
    assert f"[{100 * negative.low:.2f}, " in text_of([difference])
    assert "Intervals are cut" not in markdown([difference])
