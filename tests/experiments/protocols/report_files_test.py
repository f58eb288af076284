from experiments.protocols.report_files import MethodWarning, print_report, warning_lines


def test_a_warning_names_all_its_methods_and_each_remedy_once():
    few = [MethodWarning(name, "validates on 2 classes: mostly chance. Add classes.") for name in "ab"]
    gains = [
        MethodWarning(name, f"no gain (MAP@R {figure}, 3 before)", "More steps may help.")
        for name, figure in (("a", 1), ("b", 2))
    ]
    assert warning_lines([few[0], gains[0], few[1], gains[1], few[1]]) == [
        "warning: a, b: validates on 2 classes: mostly chance. Add classes.",
        "warning: a: no gain (MAP@R 1, 3 before); b: no gain (MAP@R 2, 3 before). More steps may help.",
    ]


def test_details_are_the_markdown_files_above_the_short_text(tmp_path, capsys):
    for name in ("table_5.md", "table_5_recall.md", "other.md", "table_5.csv"):
        (tmp_path / name).write_text(f"content of {name}\n")
    print_report("short", tmp_path, details=False)
    assert capsys.readouterr().out == "short\n"
    print_report("short", tmp_path, True, "table_5*.md")
    assert capsys.readouterr().out == "content of table_5.md\n\ncontent of table_5_recall.md\n\nshort\n"
