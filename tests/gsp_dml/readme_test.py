import pathlib
import re

README = pathlib.Path(__file__).resolve().parents[2] / "gsp_dml" / "README.md"


def code_blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_all_blocks_run_one_after_the_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in code_blocks():
        exec(compile(block, str(README), "exec"), names)  # the README's own code
    assert (tmp_path / "model.keras").exists()
    assert "positions in use" in capsys.readouterr().out
    assert bool(names["layer"].has_prototypes())
    assert names["loss"].shape == ()
