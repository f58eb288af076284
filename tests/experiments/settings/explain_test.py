import pytest

from tests.support.command_line import done_here


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        (
            "fair_eval",
            ["--methods=c2+gap,c2+ccp+gap", "--seed=3"],
            {"seed": "3  given on the command line", "sampler": "rounds  default of the setting"},
        ),
        ("fair_eval", ["--methods=c1+ccp+gsp,c1+gap"], {"chapter": "5  the methods that are compared"}),
        ("fair_eval", ["--methods=c1+ccp+gsp,c1+ccp+gap"], {"chapter": "3  the methods that are compared"}),
        ("conventional_eval", ["--loss=c1+xbm"], {"xbm_start": "1000  thesis 3.3.2.1, memory"}),
        ("revisiting_eval", ["--loss=margin"], {"margin": '0.2  "Revisiting" benchmark, losses'}),
    ],
)
def test_explain_names_values_and_layers_and_writes_nothing(command, arguments, expected, tmp_path):
    dataset = ["--dataset=cars196", "--data_dir=nowhere", f"--runs_dir={tmp_path / 'runs'}", "--explain"]
    result = done_here(f"experiments.{command}", *dataset, *arguments)
    rows = [line.split(maxsplit=2) for line in result.stdout.splitlines() if line.startswith(tuple(expected))]
    assert rows
    assert {row[0]: f"{row[1]}  {row[2]}" for row in rows if row[0] in expected} == expected
    assert list(tmp_path.iterdir()) == []
