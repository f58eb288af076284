from experiments.reports.plain_tables import Table

TABLE = Table("Radii", ["after", "cover"], [["(a)", "0.52"], ["(b.4) last", "-"]], ["A note."])


def test_text_is_aligned():
    rule = "-" * 17
    assert TABLE.as_text().splitlines() == [
        "Radii",
        rule,
        "after       cover",
        rule,
        "(a)          0.52",
        "(b.4) last      -",
        rule,
        "A note.",
    ]


def test_markdown_escapes_bars():
    table = Table("Distances", ["after", "|x - y|"], [["(a)", "1"]])
    assert table.as_markdown() == "### Distances\n\n| after | \\|x - y\\| |\n|---|---:|\n| (a) | 1 |\n"
    assert TABLE.as_markdown().endswith("| (b.4) last | - |\n\nA note.\n")


def test_rows_that_hang_below_others_are_set_apart():
    table = Table("", ["method", "MAP@R %"], [["a_b", "1"], ["  verdict", "below"], ["c", "2"]], hanging=[1])
    assert table.as_text().splitlines()[3:7] == ["a_b              1", "  verdict    below", "", "c                2"]
    assert "| **a_b** | 1 |\n| *verdict* | below |\n| **c** | 2 |" in table.as_markdown()
    assert "a\\_b & 1 \\\\\n\\quad verdict & below \\\\\n" in table.as_latex()
    assert r"MAP@R \%" in table.as_latex()


def test_csv_has_header_and_rows_alone():
    assert TABLE.as_csv() == "after,cover\n(a),0.52\n(b.4) last,-\n"


def test_latex_prints_every_sign_as_it_is():
    table = Table("a^b ~ c", ["1 < 2 | 3 > 2"], [[r"C:\data_{x}"]], ["90 % & more: 1 ± 2†, #1, $2"])
    assert table.as_latex().splitlines() == [
        r"a\^{}b \~{} c\\",
        r"\begin{tabular}{l}",
        r"\hline",
        r"1 $<$ 2 $|$ 3 $>$ 2 \\",
        r"\hline",
        r"C:\textbackslash{}data\_\{x\} \\",
        r"\hline",
        r"\end{tabular}",
        r"\par 90 \% \& more: 1 $\pm$ 2\dag{}, \#1, \$2",
    ]


def test_each_block_of_a_wide_table_repeats_the_columns_that_name_a_row():
    wide = ["a" * 45, "b" * 45]
    lines = Table("", ["method", "batch", *wide], [["c2", "8", "1", "2"], ["c2", "32", "3", "4"]], keys=2).as_text()
    named = [line.split() for line in lines.splitlines() if line.startswith("c2")]
    assert named == [["c2", "8", "1"], ["c2", "32", "3"], ["c2", "8", "2"], ["c2", "32", "4"]]
