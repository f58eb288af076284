"""Small tables, aligned and as Markdown."""

from experiments.reports.plain_tables import PlainTable

TABLE = PlainTable("Radii", ["after", "cover"], [["(a)", "0.52"], ["(b.4) last", "-"]], ["A note."])


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
    table = PlainTable("Distances", ["after", "|x - y|"], [["(a)", "1"]])
    assert table.as_markdown() == "### Distances\n\n| after | \\|x - y\\| |\n|---|---:|\n| (a) | 1 |\n"
    assert TABLE.as_markdown().endswith("| (b.4) last | - |\n\nA note.\n")
