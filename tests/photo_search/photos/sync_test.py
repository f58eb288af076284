import os
import re
import shutil

import numpy as np
import pytest

from common.deployment.embedder import Embedder
from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex, database as index_database, index_folder
from photo_search.index.approximate import TARGET_RECALL
from photo_search.photos import actions
from photo_search.photos.duplicates import read_pairs
from tests.photo_search.conftest import write_photo
from tests.support import command_line


@pytest.fixture
def embedded(monkeypatch):
    """The names of the photos that a network has embedded since the list was last emptied."""
    names, embed = [], Embedder.embed

    def noted(self, items, batch_size=64):
        names.extend(os.path.basename(item) for item in items)
        return embed(self, items, batch_size)

    monkeypatch.setattr(Embedder, "embed", noted)
    return names


def change(photos):
    """Rename two (one to another class), remove one, edit two, exchange two names, add one and a copy."""
    os.rename(photos / "jay" / "0.png", os.fsencode(photos / "jay") + b"/\xff.png")
    os.rename(photos / "jay" / "1.png", photos / "kea" / "moved.png")
    (photos / "jay" / "2.png").unlink()
    write_photo(photos / "kea" / "0.png", 70)
    before = os.stat(photos / "kea" / "1.png")
    write_photo(photos / "kea" / "1.png", 71)
    os.utime(photos / "kea" / "1.png", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.rename(photos / "owl" / "0.png", photos / "owl" / "aside")
    os.rename(photos / "owl" / "1.png", photos / "owl" / "0.png")
    os.rename(photos / "owl" / "aside", photos / "owl" / "1.png")
    write_photo(photos / "owl" / "new.png", 72)
    shutil.copy(photos / "owl" / "2.png", photos / "owl" / "copy.png")


def test_a_synced_index_is_that_of_a_new_one(model, photos, tmp_path, run_here, embedded, capsys, monkeypatch):
    run_here("index", "--index=ix", f"--model={model}", "--images=photos", "--root=photos")
    change(photos)
    old = EmbeddingIndex.load("ix")
    embedded.clear()
    capsys.readouterr()
    run_here("sync", "--index=ix", "--dry_run")
    counts = "2 added, 4 changed, 2 renamed, 1 removed, 5 unchanged; 3 photos"
    shown = capsys.readouterr().out
    assert f"{counts} to embed." in shown
    assert "renamed: photos/jay/1.png -> photos/kea/moved.png\nremoved: photos/jay/2.png\n" in shown
    assert embedded == []

    def stopped(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(index_folder, "write_json", stopped)
        with pytest.raises(KeyboardInterrupt):
            run_here("sync", "--index=ix")
    assert list(EmbeddingIndex.load("ix").ids) == list(old.ids)
    run_here("sync", "--index=ix")
    assert f"{counts} embedded.\nix: 13 photos.\n" in capsys.readouterr().out
    assert embedded == ["0.png", "1.png", "new.png"]  # before the write was stopped
    assert not os.path.exists("ix.parts")

    run_here("index", "--index=fresh", f"--model={model}", "--images=photos")
    fresh, synced = EmbeddingIndex.load("fresh"), EmbeddingIndex.load("ix")
    assert list(synced.ids) == list(fresh.ids)
    assert list(synced.labels) == list(fresh.labels)
    assert list(synced.digests) == list(fresh.digests)
    np.testing.assert_allclose(synced.embeddings, fresh.embeddings, rtol=0, atol=1e-6)

    os.mkdir("moved")  # the index and its photos together
    for name in ("ix", "photos"):
        os.rename(name, f"moved/{name}")
    capsys.readouterr()
    embedded.clear()
    run_here("sync", "--index=moved/ix")
    assert "0 added, 0 changed, 0 renamed, 0 removed, 13 unchanged; 0 photos embedded." in capsys.readouterr().out
    run_here("neighbours", "--index=moved/ix", "--images=moved/photos/owl/2.png", "--label=owl", "--label=jay", "--k=2")
    lines = capsys.readouterr().out.splitlines()[2:4]
    assert "moved/photos/owl/copy.png" in lines[0]
    assert {line.split()[2] for line in lines} <= {"owl", "jay"}
    assert embedded == ["2.png"]


@pytest.mark.slow
def test_the_same_commands_with_a_database(model, photos, tmp_path, run_here, embedded, capsys, database, postgres):
    """From index to clinic; the server is killed when a sync writes, and the same command completes it."""
    run_here("index", f"--index={database}", f"--model={model}", "--images=photos", "--root=photos")
    shown = capsys.readouterr().out
    assert ("***@127.0.0.1" in shown, "12 photos, 4 components, cosine, float32." in shown) == (True, True)
    change(photos)
    os.rename(os.fsencode(photos / "jay") + b"/\xff.png", photos / "jay" / "renamed.png")
    copy = index_database._copy

    def killed(*arguments):
        postgres.kill()
        return copy(*arguments)

    embedded.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_database, "_copy", killed)
        with pytest.raises(InvalidInput, match="Run the same command again"):
            run_here("sync", f"--index={database}")
    assert embedded == ["0.png", "1.png", "new.png"]
    with pytest.raises(InvalidInput, match="Cannot use .*refused"):
        run_here("sync", f"--index={database}")
    postgres.start()
    assert len(EmbeddingIndex.load(database)) == 12
    capsys.readouterr()
    run_here("sync", f"--index={database}")
    assert "2 added, 4 changed, 2 renamed, 1 removed, 5 unchanged; 3 photos embedded." in capsys.readouterr().out
    assert embedded == ["0.png", "1.png", "new.png"]  # not again
    run_here("index", "--index=fresh", f"--model={model}", "--images=photos")
    fresh, synced = EmbeddingIndex.load("fresh"), EmbeddingIndex.load(database)
    rows = [synced.ids.index(path) for path in fresh.ids]
    assert len(rows) == len(synced) == 13
    assert [synced.labels[row] for row in rows] == list(fresh.labels)
    assert [synced.digests[row] for row in rows] == list(fresh.digests)
    np.testing.assert_allclose(synced.embeddings[rows], fresh.embeddings, rtol=0, atol=1e-6)

    query = ["--images=photos/owl/2.png", "--k=2"]
    capsys.readouterr()
    for index in ("fresh", database):  # the model comes from the index
        run_here("neighbours", f"--index={index}", *query, "--label=owl", "--label=jay")
    _, first, second = capsys.readouterr().out.split("rank")
    assert first.split() == second.split()
    run_here("duplicates", f"--index={database}", "--threshold=0.999999", "--html=d.html")
    assert "2 of 13 photos are" in capsys.readouterr().out
    run_here("index", f"--index={database}", "--approximate=hnsw")
    run_here("neighbours", f"--index={database}", *query, "--search=approximate")
    run_here("remove", f"--index={database}", "--label=owl")
    recall = re.search(r"Approximate index \(hnsw\): recall@10 (\S+) against", capsys.readouterr().out)
    assert float(recall[1]) >= TARGET_RECALL  # the server draws the graph's levels at random
    left = EmbeddingIndex.load(database)
    assert left.approximate["rows"] == len(left) == 7
    finished = command_line.run_here("photo_search.clinic", f"--index={database}", "--threshold=0.999999", cwd=tmp_path)
    assert finished.stdout.startswith("7 photos; found: "), finished.stderr
    assert not list(tmp_path.glob("*.parts"))
    places = [os.path.join(folder, each) for folder, _, names in os.walk(tmp_path) for each in names]
    assert not [place for place in places if "pass%20word" in place or "postgresql" in place]


def test_what_others_change_while_photos_are_embedded(model, photos, run_here, capsys, database, monkeypatch):
    run_here("index", f"--index={database}", f"--model={model}", "--images=photos/jay")
    embedded = actions.embedded

    def meanwhile(change):
        def embedded_meanwhile(*arguments, **named):
            table = embedded(*arguments, **named)
            change(EmbeddingIndex.load(database), table)
            return table

        monkeypatch.setattr(actions, "embedded", embedded_meanwhile)

    meanwhile(lambda index, table: index.add(table.embeddings[:1], table.paths[:1]))
    run_here("index", f"--index={database}", "--images=photos")
    assert "7 photos added." in capsys.readouterr().out
    meanwhile(lambda index, table: index.remove(table.paths[:1]))
    run_here("neighbours", f"--index={database}", "--images=photos")
    assert len(EmbeddingIndex.load(database)) == 11


def test_photos_elsewhere_and_labels_stay(model, photos, tmp_path, run_here, capsys):
    """Two folders in one index, the second without classes: a sync of one of them leaves the other alone."""
    run_here("index", "--index=ix", f"--model={model}", "--images=photos")
    write_photo(tmp_path / "more" / "a.png", 80)
    (photos / "jay" / "0.png").unlink()
    capsys.readouterr()
    run_here("sync", "--index=ix", "--images=more")
    assert "1 added, 0 changed, 0 renamed, 0 removed, 0 unchanged; 1 photo embedded." in capsys.readouterr().out
    index = EmbeddingIndex.load("ix")
    assert (len(index), index.labels[12]) == (13, "")
    (tmp_path / "t.csv").write_text("path,label\nmore/a.png,emu\nphotos/jay/1.png,jay\n")
    capsys.readouterr()
    run_here("sync", "--index=ix", "--images=t.csv")  # a table is all of the index
    counts = "0 added, 0 changed, 0 renamed, 11 removed, 1 unchanged, 1 with another label; 0 photos embedded."
    assert counts in capsys.readouterr().out
    index = EmbeddingIndex.load("ix")
    assert [(os.path.basename(path), label) for path, label in zip(index.ids, index.labels)] == [
        ("a.png", "emu"),
        ("1.png", "jay"),
    ]


def test_unreadable_photos_are_left_out(model, photos, run_here, capsys):
    run_here("index", "--index=ix", f"--model={model}", "--images=photos")
    (photos / "jay" / "0.png").write_bytes(b"no image")
    (photos / "jay" / "bad.png").write_bytes(b"no image either")
    capsys.readouterr()
    run_here("sync", "--index=ix", "--images=photos", "--skip_unreadable")
    assert "0 added, 0 changed, 0 renamed, 1 removed, 11 unchanged, 2 left out; 0 photos" in capsys.readouterr().out
    assert len(EmbeddingIndex.load("ix")) == 11


def test_patterns_leave_photos_out(model, photos, run_here, capsys):
    excluded = ["--exclude=jay", "--exclude=0.*,kea/1.png"]
    run_here("embed", f"--model={model}", "--images=photos", "--output=e.npz", *excluded)
    assert "e.npz: 5 embeddings" in capsys.readouterr().out
    run_here("index", "--index=ix", f"--model={model}", "--images=photos")
    run_here("sync", "--index=ix", "--images=photos", "--exclude=jay")
    assert "0 added, 0 changed, 0 renamed, 4 removed" in capsys.readouterr().out
    with pytest.raises(InvalidInput, match="--exclude: received 'x', expected no such flag, since .*1.png is no fol"):
        run_here("neighbours", "--index=ix", "--images=photos/kea/1.png", "--exclude=x", "--k=1")


def test_labels_of_a_later_table_reach_an_index_without_any(model, photos, run_here, embedded, capsys):
    run_here("index", "--index=ix", f"--model={model}", "--images=photos/jay")
    assert EmbeddingIndex.load("ix").labels is None
    rows = [f"./jay/{place}.png,{'xy'[place // 2]}" for place in range(4)]
    (photos / "t.csv").write_text("\n".join(["path,label", *rows]))
    embedded.clear()
    capsys.readouterr()
    run_here("sync", "--index=ix", "--images=photos/t.csv")
    assert "0 removed, 0 unchanged, 4 with another label; 0 photos embedded" in capsys.readouterr().out
    assert list(EmbeddingIndex.load("ix").labels) == ["x", "x", "y", "y"]
    assert embedded == []


def test_tables_of_other_spellings_find_the_photos_of_an_index(photos, tmp_path, run_here):
    names = [photos / "jay" / "0.png", photos / "jay" / "cafe\u0301.png", photos / "owl" / "0.png"]
    index = EmbeddingIndex.build(np.eye(3, dtype=np.float32), names, ["cafe\u0301", "", "x"])
    index.save(tmp_path / "ix")
    (photos / "t.csv").write_text("path,year\n./jay/../jay/0.png,1\njay/caf\u00e9.png,2\n", encoding="utf-8")
    run_here("index", "--index=ix", "--metadata=photos/t.csv")
    assert EmbeddingIndex.load("ix").metadata == [{"year": "1"}, {"year": "2"}, {}]
    (tmp_path / "pairs.csv").write_text("first,second,same\n./photos/jay/0.png,photos/jay/caf\u00e9.png,1\n", "utf-8")
    assert read_pairs("pairs.csv", index)[1].tolist() == [True]
    for label in ("cafe\u0301", "caf\u00e9"):
        assert index.rows_labelled([label]).tolist() == [0]
    run_here("remove", "--index=ix", "--images=photos/t.csv")
    assert list(EmbeddingIndex.load("ix").ids) == [str(names[2])]


def test_given_photos_are_forgotten(tmp_path, run_here, capsys):
    names = [
        str(tmp_path / "photos" / name) for name in ("jay/0.png", "jay/1.png", "owl/0.png", "owl/1.png", "owls.png")
    ]
    EmbeddingIndex.build(np.eye(5, dtype=np.float32), names, ["jay", "jay", "owl", "owl", ""]).save(tmp_path / "ix")
    run_here("remove", "--index=ix", "--images=photos/owl", "--dry_run")
    assert "2 photos of 5 would be removed." in capsys.readouterr().out
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "t.csv").write_text("path\njay/1.png\n")
    for flags, left in (
        (["--images=photos/owl", "--label=owl"], names[:2] + names[4:]),
        (["--images=photos/t.csv"], [names[0], names[4]]),
        (["--label=jay"], [names[4]]),
        ([f"--images={names[4]}"], []),
    ):
        run_here("remove", "--index=ix", *flags)
        assert list(EmbeddingIndex.load(tmp_path / "ix").ids) == left


def test_metadata_filter_and_follow_renamed_photos(model, photos, tmp_path, run_here, capsys):
    lines = ["Path,Year,place", *(f"jay/{place}.png,{2020 + place % 2},park" for place in range(4)), "gone.png,1,"]
    (photos / "years.csv").write_text("\n".join(lines))
    run_here("index", "--index=ix", f"--model={model}", "--images=photos", "--metadata=photos/years.csv")
    assert "photos/years.csv: metadata of 4 photos; 1 row of other photos.\n" in capsys.readouterr().out
    os.rename(photos / "jay" / "1.png", photos / "kea" / "moved.png")
    (tmp_path / "more.csv").write_text("path;year;label\nphotos/owl/0.png;2021;no\n")
    run_here("sync", "--index=ix", "--images=photos", "--metadata=more.csv")
    assert "more.csv: metadata of 1 photo.\n" in capsys.readouterr().out
    query = ["--index=ix", "--images=photos/owl/1.png", "--k=2"]
    run_here("neighbours", *query, "--where=year=2021", "--where=label=kea", "--where=label=owl")
    assert {line.split()[-1] for line in capsys.readouterr().out.splitlines()[2:4]} == {
        "photos/kea/moved.png",
        "photos/owl/0.png",
    }
    run_here("remove", "--index=ix", "--where=year=2020", "--dry_run")
    assert "2 photos of 12 would be removed." in capsys.readouterr().out
    (tmp_path / "twice.csv").write_text("path,year\na.png,1\n./a.png,2\n")
    (tmp_path / "plain.csv").write_text("path,label\na.png,1\n")
    (tmp_path / "other.csv").write_text("path,year\na.png,1\n")
    for arguments, phrase in (
        (["neighbours", *query, "--where=year"], "--where.*COLUMN=VALUE"),
        (["neighbours", *query, "--where=size=1"], "column.*size.*label, place, year"),
        (["neighbours", *query, "--where=year=2020", "--k=3"], "--k.*3.*1, 2"),
        (["index", "--index=ix", "--metadata=twice.csv"], "a.png twice .*line 3"),
        (["index", "--index=ix", "--metadata=plain.csv"], "plain.csv without other columns"),
        (["index", "--index=ix", "--metadata=other.csv"], "other.csv without a photo of the index"),
        (["index", "--index=ix", "--metadata=other.doc"], "other.doc.*a table"),
    ):
        with pytest.raises(InvalidInput, match=phrase):
            run_here(*arguments)
