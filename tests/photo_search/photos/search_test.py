import csv
import io
import os
import re
import shutil

import numpy as np
import pytest

from common.deployment import load_embedder, save_model
from common.errors import InvalidInput
from photo_search.index import EmbeddingIndex
from photo_search.photos import duplicates, neighbors
from photo_search.photos.actions import FLAGS
from photo_search.photos.embedding import EmbeddingTable
from photo_search.photos.shown import write_csv
from tests.common.deployment.small_models import of_images
from tests.photo_search.conftest import write_photo
from tests.support import command_line
from tests.support.command_line import check_clean_failure


def search(action, cwd, *arguments):
    return command_line.run_here("photo_search.search", action, *arguments, cwd=cwd)


def done(action, cwd, *arguments):
    finished = search(action, cwd, *arguments)
    assert finished.returncode == 0, finished.stderr
    assert finished.stderr == ""  # no progress bar in a file
    return finished.stdout


def test_without_an_action_the_actions_are_listed(tmp_path):
    shown = command_line.done_here("photo_search.search", cwd=tmp_path).stdout
    assert [action for action in FLAGS if f"search {action} " not in shown] == ["remove"]


def test_a_former_action_names_what_replaces_it(tmp_path):
    for words in (["push", "--index=ix"], ["push", "--index=ix", "--url=http://localhost:6333", "--collection=x"]):
        check_clean_failure(search(*words[:1], tmp_path, *words[1:]), "push is gone: `index --index=postgresql://")


@pytest.mark.slow
def test_from_a_folder_to_neighbours_and_duplicates(model, photos, tmp_path):
    shutil.copy(photos / "jay" / "1.png", photos / "owl" / "copy of a jay.png")
    made = [f"--model={model}", "--images=photos"]
    assert "13 embeddings of 4 components" in done("embed", tmp_path, *made, "--output=photos.npz")
    stored = done("index", tmp_path, "--index=index", "--embeddings=photos.npz")
    assert stored == "index: 13 photos, 4 components, cosine, float32.\n"
    assert done("map", tmp_path, "--index=index", "--html=map.html").startswith("A map of 13 of 13 photos.\n")

    write_photo(tmp_path / "new" / "owl" / "a.png", 20)  # as owl/0.png
    shown = done(
        "neighbours",
        tmp_path,
        "--index=index",
        f"--model={model}",
        "--images=new",
        "--k=3",
        "--csv=n.csv",
        "--html=n.html",
    )
    lines = [line.split() for line in shown.splitlines()]
    assert lines[:2] == [["rank", "similarity", "label", "path"], ["new/owl/a.png"]]
    assert lines[2] == ["1", "1.0000", "owl", "photos/owl/0.png"]
    assert len(lines) == 1 + 1 + 3 + 1 + 2
    with open(tmp_path / "n.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    index = EmbeddingIndex.load(tmp_path / "index", embedder=load_embedder(model))
    found = index.search([str(tmp_path / "new" / "owl" / "a.png")], 3)
    assert [row["path"] for row in rows] == found.ids[0]
    assert [float(row["similarity"]) for row in rows] == pytest.approx(found.similarities[0], abs=1e-6)
    assert (tmp_path / "n.html").read_text().count("data:image/jpeg") == 4

    shown = done("duplicates", tmp_path, "--index=index", "--threshold=0.999999", "--csv=d.csv", "--html=d.html")
    assert "1      yes   1.0000      photos/jay/1.png              photos/owl/copy of a jay.png" in shown
    assert "1      no    1.0000      photos/owl/copy of a jay.png  photos/jay/1.png" in shown
    assert "2 of 13 photos are at least 0.9999 similar to another; 1 group." in shown
    assert (tmp_path / "d.html").read_text().count("data:image/jpeg") == 2


@pytest.mark.slow
def test_names_that_are_no_text_work_everywhere(model, photos, tmp_path):
    """Bytes of Latin-1 in the names of a class and of photos, one of them unreadable; other files are counted."""
    odd = os.fsencode(photos) + b"/caf\xe9"
    os.rename(photos / "jay", odd)
    os.rename(odd + b"/0.png", odd + b"/\xff.png")
    with open(odd + b"/bad\xe9.jpg", "wb") as file:
        file.write(b"no image")
    (photos / "kea" / "notes.txt").write_text("")
    made = [f"--model={model}", "--images=photos", "--skip_unreadable"]
    finished = search("index", tmp_path, "--index=ix", *made)
    assert finished.stderr == "photos: left out: 1 file (.txt 1)\n"
    assert "caf\\udce9/bad\\udce9.jpg (its format is unknown)" in finished.stdout
    assert "ix: 12 photos" in finished.stdout
    written = ["--csv=found.csv", "--html=found.html"]
    query = f"--images={os.fsdecode(odd)}/{os.fsdecode(bytes([0xFF]))}.png"
    found = done("neighbours", tmp_path, "--index=ix", f"--model={model}", query, "--k=2", *written)
    assert re.search(r"^photos/caf\\udce9/\\udcff.png\n1 .+ +photos/", found, re.MULTILINE)
    assert "udcff.png,1,0." in (tmp_path / "found.csv").read_text()
    assert "data:image/jpeg" in (tmp_path / "found.html").read_text()
    assert "of 12 photos are" in done("duplicates", tmp_path, "--index=ix", "--threshold=0.5", *written)


def test_the_same_command_adds_what_is_new(model, photos, tmp_path):
    command = ["--index=index", f"--model={model}", "--images=photos"]
    done("index", tmp_path, *command, "--dtype=float16")
    write_photo(photos / "emu" / "1.png", 77)
    shown = done("index", tmp_path, *command)
    assert "12 photos are in the index already" in shown
    assert "1 photos added." in shown
    assert "index: 13 photos, 4 components, cosine, float16, rounded by at most " in shown
    index = EmbeddingIndex.load(tmp_path / "index")
    assert index.ids[12] == str(photos / "emu" / "1.png")
    assert index.labels[12] == "emu"
    assert "13 photos are in the index already" in done("index", tmp_path, *command)
    # a photo of the index does not find itself
    own = done("neighbours", tmp_path, "--index=index", f"--model={model}", "--images=photos/emu", "--k=12")
    assert "emu/1.png" not in [line.split()[-1] for line in own.splitlines()[2:]]
    assert len(own.splitlines()) == 14


def test_labels_stay_with_their_photos_where_some_are_known(tmp_path, run_here):
    vectors, paths = np.eye(4, dtype=np.float32), np.array(["/a", "/b", "/c", "/d"])
    names, numbers = np.array(["jay", "kea", "owl"]), np.array([0, 1, 2, 1])
    for name, rows in (("one", [1]), ("all", [0, 1, 2, 3])):
        arrays = {"embeddings": vectors[rows], "paths": paths[rows], "labels": numbers[rows], "class_names": names}
        np.savez(tmp_path / f"{name}.npz", **arrays)
        run_here("index", "--index=index", f"--embeddings={name}.npz")
    index = EmbeddingIndex.load(tmp_path / "index")
    assert dict(zip(index.ids, index.labels)) == {"/a": "jay", "/b": "kea", "/c": "owl", "/d": "kea"}


def test_a_tilde_is_the_home_folder_in_paths_alone(tmp_path, monkeypatch):
    home, work = tmp_path / "home", tmp_path / "work"
    for folder in (home, work):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "plugin.py").write_text("def register(registry):\n    pass\n")
    arrays = {"embeddings": np.eye(3), "paths": ["/a", "/b", "/c"], "labels": ["~/jay", "~/jay", "kea"]}
    np.savez(home / "e.npz", **arrays)
    done("index", work, "--index=~/ix", "--embeddings=~/e.npz", "--plugin=~/plugin.py")
    assert list(EmbeddingIndex.load(home / "ix").ids) == arrays["paths"]
    found = done("neighbours", work, "--index=~/ix", "--embeddings=~/e.npz", "--label=~/jay", "--k=1", "--csv=~/n.csv")
    assert f"written: {home}/n.csv" in found
    several = command_line.run_here("experiments.record", "--runs=~/one,~/two", "--study=~/s", cwd=work)
    check_clean_failure(several, str(home / "one"))
    assert list(work.iterdir()) == []


def test_a_photo_is_not_its_own_neighbour_under_another_spelling():
    index = EmbeddingIndex.build(np.eye(3, dtype=np.float32), ["/x/./0.png", "/x/1.png", "/x/2.png"])
    queries = EmbeddingTable(np.eye(3, dtype=np.float32)[:1], ["/x/0.png"], None, None)
    (found,) = neighbors.find_neighbors(index, queries, 2)
    assert sorted(found.ids) == ["/x/1.png", "/x/2.png"]


def test_neighbours_without_a_class_are_left_out_of_the_share_and_counted():
    found = [
        neighbors.Found("/a", "jay", ["/b", "/c", "/d"], ["jay", "", "kea"], [0.9, 0.8, 0.7]),
        neighbors.Found("/e", "kea", ["/b"], [""], [0.9]),
        neighbors.Found("/f", "", ["/b"], ["jay"], [0.9]),
    ]
    sentence = neighbors.precision_sentence(found)
    assert sentence.startswith("50.0 % of the neighbours")
    assert "1 query and 2 neighbours" in sentence
    assert neighbors.precision_sentence(found[1:]) == ""


def test_photos_are_listed_by_group_and_the_most_similar_first(tmp_path):
    angles = np.radians([0, 3, 4, 80, 81])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    index = EmbeddingIndex.build(vectors, list("abcde"))
    write_csv(
        str(tmp_path / "d.csv"),
        duplicates.HEADER,
        duplicates.group_rows(index.near_duplicates(0.99), index.ids, {0, 3}),
    )
    with open(tmp_path / "d.csv", newline="") as file:
        rows = [(row["group"], row["path"] + row["nearest"]) for row in csv.DictReader(file)]
    assert rows == [("1", "bc"), ("1", "cb"), ("1", "ab"), ("2", "de"), ("2", "ed")]


def test_labelled_pairs_choose_the_threshold(tmp_path):
    angles = np.radians([0, 1, 2, 30, 33, 80, 86])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    names = [str(tmp_path / f"{number}.png") for number in range(7)]
    EmbeddingIndex.build(vectors, names).save(tmp_path / "index")
    # same up to 3 degrees, different from 6 degrees on
    (tmp_path / "pairs.csv").write_text(
        "first,second,same\n0.png,1.png,1\n1.png,2.png,yes\n3.png,4.png,true\n5.png,6.png,0\n"
    )
    shown = done("duplicates", tmp_path, "--index=index", "--pairs=pairs.csv", "--precision=0.95")
    assert "Threshold 0.9986: 100.0 % of the 3 labelled pairs" in shown
    assert "5 of 7 photos are at least 0.9986 similar to another; 2 groups." in shown
    shown = done("duplicates", tmp_path, "--index=index", "--pairs=pairs.csv", "--precision=0.75")
    assert "Threshold 0.9945: 75.0 % of the 4 labelled pairs" in shown
    (tmp_path / "pairs.csv").write_text("first,second,same\n0.png,6.png,no\n")
    failed = search("duplicates", tmp_path, "--index=index", "--pairs=pairs.csv")
    check_clean_failure(failed, "--precision", "at most 0.0000")
    for line, phrase in (("0.png,9.png,1", "9.png"), ("0.png,1.png,maybe", "1 or 0")):
        (tmp_path / "pairs.csv").write_text(f"first,second,same\n{line}\n")
        failed = search("duplicates", tmp_path, "--index=index", "--pairs=pairs.csv")
        check_clean_failure(failed, "pairs.csv, line 2", phrase)


def test_expansion_and_reranking_keep_the_number_of_rows(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", embeddings=vectors, paths=[f"/{row}.png" for row in range(300)])
    done("index", tmp_path, "--index=index", "--embeddings=x.npz")
    shown = done("neighbours", tmp_path, "--index=index", "--embeddings=x.npz", "--k=2", "--rerank=50", "--expand=5")
    assert len([line for line in shown.splitlines() if line.startswith("/")]) == 300


def test_the_similarity_of_one_class_is_stated(tmp_path, run_here, capsys):
    """Neighbours 1 degree apart are of one class, most at 2 degrees, and none from 2.5 on, where the share falls."""
    angles = np.concatenate([[base, base + 1, base + 3.5, base + 5.5] for base in range(0, 360, 9)])
    labels = np.concatenate([[f"{base}", f"{base}", f"x{base}", f"x{base}"] for base in range(40)])
    labels[[2, 6, 10]] = "", "odd", "other"
    points = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=1)
    np.savez(tmp_path / "x.npz", embeddings=points, paths=[f"{row}.jpg" for row in range(160)], labels=labels)
    run_here("index", "--index=index", "--embeddings=x.npz")
    capsys.readouterr()
    asked = ["neighbours", "--index=index", "--embeddings=x.npz", "--k=1"]
    run_here(*asked)
    stated = "at least 80 % of neighbours with a similarity of 0.9990 or more are of the same class."  # cos 2.5 degrees
    assert stated in capsys.readouterr().out
    run_here(*asked, "--together")
    assert "of the same class" not in capsys.readouterr().out
    rng = np.random.default_rng(0)
    assert neighbors.class_sentence(EmbeddingIndex.build(points, range(160))) == ""
    assert neighbors.class_sentence(EmbeddingIndex.build(points, range(160), rng.permutation(labels))) == ""


def test_photos_unlike_all_others_are_said_to_be(tmp_path, run_here, capsys):
    angles = np.radians([0, 1, 2, 3, 20, 21, 23, 24])
    vectors = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1).astype(np.float32)
    np.savez(tmp_path / "known.npz", embeddings=vectors, paths=list("abcdefgh"), labels=list("jjjjkkkk"))
    np.savez(tmp_path / "new.npz", embeddings=np.float32([[1, 0.001, 0], [0, 0, 1]]), paths=["near.png", "far.png"])
    run_here("index", "--index=index", "--embeddings=known.npz")
    capsys.readouterr()
    asked = ["neighbours", "--index=index", "--embeddings=new.npz", "--k=1", "--csv=found.csv"]
    run_here(*asked, "--reject=10", "--html=found.html")
    shown = capsys.readouterr().out
    assert "Threshold of --reject: 0.9998. It rejects 0.0 % [0.0, 36.9] of 8 photos of the index, and 100 % if" in shown
    assert "1 of 2 queries: unlike everything in the index." in shown
    with open(tmp_path / "found.csv", newline="") as file:
        verdicts = {row["query"]: row["verdict"] for row in csv.DictReader(file)}
    assert verdicts == {"near.png": "known", "far.png": "unlike everything in the index"}
    assert (tmp_path / "found.html").read_text().count("unlike everything in the index") == 1
    run_here(*asked)
    assert "verdict" not in (tmp_path / "found.csv").read_text()
    for other in ("--rerank=5", "--label=j"):
        with pytest.raises(InvalidInput, match=f"{other[:7]}.*nearest of all photos"):
            run_here(*asked, "--reject=10", other)


def test_photos_of_a_label_are_one_query_without_themselves(tmp_path, run_here):
    rng = np.random.default_rng(0)
    labels = np.repeat(range(3), 4)
    points = rng.normal(size=(3, 8))[labels] + 0.1 * rng.normal(size=(12, 8))
    names, paths = np.array(["jay", "kea", "owl"]), np.array([f"{row}.jpg" for row in range(12)])
    np.savez(tmp_path / "all.npz", embeddings=points, paths=paths, labels=labels, class_names=names)
    chosen = [0, 1, 8, 9]
    arrays = {"paths": paths[chosen], "labels": labels[chosen], "class_names": names}
    np.savez(tmp_path / "some.npz", embeddings=points[chosen], **arrays)
    run_here("index", "--index=index", "--embeddings=all.npz")
    run_here("neighbours", "--index=index", "--embeddings=some.npz", "--k=2", "--together", "--csv=found.csv")
    with open(tmp_path / "found.csv", newline="") as file:
        found = [(row["query"], row["label"], row["path"]) for row in csv.DictReader(file)]
    assert [each[0] for each in found] == ["0.jpg", "0.jpg", "8.jpg", "8.jpg"]
    assert (found[0][1], found[2][1]) == ("jay", "owl")
    assert not {path for _, _, path in found} & {"0.jpg", "1.jpg", "8.jpg", "9.jpg"}
    arrays = {"paths": [*"abcdxy"], "labels": [*labels[chosen], 3, 3], "class_names": [*names, "fog"]}
    np.savez(tmp_path / "more.npz", embeddings=[*points[chosen], *rng.normal(size=(2, 8))], **arrays)
    asked = ["neighbours", "--index=index", "--embeddings=more.npz", "--k=1", "--together", "--csv=found.csv"]
    run_here(*asked, "--reject=5")
    with open(tmp_path / "found.csv", newline="") as file:
        verdicts = {row["query"]: row["verdict"] for row in csv.DictReader(file)}
    assert verdicts == {"a": "known", "c": "known", "x": "unlike everything in the index"}
    with pytest.raises(InvalidInput, match="--label.*nearest of all photos"):
        run_here(*asked, "--reject=5", "--label=jay")


def test_a_keras_that_runs_code_of_models_is_named(model, photos, tmp_path, run_here, monkeypatch, capsys):
    monkeypatch.setattr("common.deployment.embedder.FIRST_SAFE_KERAS", (99, 0))
    run_here("index", "--index=index", f"--model={model}", f"--images={photos}")
    assert "CVE-2025-1550" in capsys.readouterr().err
    run_here("neighbours", "--index=index", f"--images={photos}/kea", "--k=1")  # the index brings its model
    assert "CVE-2025-1550" in capsys.readouterr().err


def test_what_is_wrong_is_said_before_anything_is_embedded(model, photos, tmp_path, run_here):
    made = [f"--model={model}", "--images=photos"]
    run_here("index", "--index=index", *made)
    (tmp_path / "empty").mkdir()
    other = tmp_path / "other.keras"
    save_model(of_images()[0], other)
    np.savez(
        tmp_path / "long.npz",
        embeddings=np.eye(5, dtype=np.float32),
        paths=list("abcde"),
        model_digest=load_embedder(model).digest,
    )
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.jpg").write_bytes(b"\xff\xd8\xff no photo")
    look_up = ["neighbours", "--index=index"]
    cases = [
        (["embed", *made], "--output"),
        (["embed", *made, "--output=x.txt"], "--output", ".npz or .parquet"),
        (["embed", f"--model={model}", "--images=empty", "--output=x.npz"], "--images", "empty", "image files"),
        (["embed", f"--model={model}", "--images=broken", "--output=x.npz"], "broken/a.jpg", "--skip_unreadable"),
        (["embed", *made, "--output=x.npz", "--k=3"], "--k would have no effect", "embed does not read it"),
        (["index", "--index=new"], "--images", "--embeddings"),
        (["index", "--index=index", "--metric=euclidean", *made], "--metric", "keeps its own"),
        ([*look_up, "--images=photos", f"--model={other}"], "--model", "digest", "new index"),
        ([*look_up, "--images=photos", f"--model={model}", "--k=13"], "--k", "received 13", "[1, 12]"),
        ([*look_up, "--images=photos", "--model=nothing.keras"], "nothing.keras"),
        ([*look_up, "--images=photos", "--backbone=vgg16"], "--backbone", "the index keeps its own model"),
        ([*look_up, "--embeddings=long.npz", "--k=2"], "5 components", "4, as the index has"),
        ([*look_up, "--images=photos", f"--model={model}", "--search=approximate"], "--search", "--approximate=hnsw"),
        ([*look_up, "--images=photos", f"--model={model}", "--html=no/x.html"], "--html", "folder that exists"),
        (["neighbours", "--index=nothing", *made], "nothing", "index.json"),
        ([*look_up, *made, "--label=jay", "--k=5"], "--k", "received 5", "[1, 4]"),
        ([*look_up, *made, "--label=emu"], "label", "emu", "jay, kea, owl"),
        (["index", "--index=index", "--root=photos", *made], "--root", "keeps its own"),
        (["sync", "--index=index"], "--images", "no --root"),
        (["sync", "--index=index", "--images=photos", "--root=gone"], "--root", "gone", "folder that exists"),
        (["sync", "--index=index", "--images=photos/jay/0.png"], "--images", "a folder or a table"),
        (["remove", "--index=index"], "--images", "--label"),
        (["remove", "--index=index", "--images=gone.png"], "photos", "--images=gone.png", "some that index has"),
        (["duplicates", "--index=index", "--threshold=0.9", "--pairs=p.csv"], "--threshold", "--pairs"),
        (["duplicates", "--threshold=0.9"], "--index", "--images"),
        (["duplicates", "--threshold=0.9", "--index=index", f"--model={model}"], "--model", "embedded already"),
        (["duplicates", "--index=index", "--threshold=0.9", "--precision=0.9"], "--precision", "no --pairs"),
    ]
    for (action, *arguments), *phrases in cases:
        with pytest.raises(InvalidInput) as error:
            run_here(action, *arguments)
        assert [phrase for phrase in phrases if phrase not in str(error.value)] == []
    assert not list(tmp_path.glob("x.*[!s]"))


def test_a_shell_answers_line_by_line_by_one_network(model, photos, run_here, monkeypatch, capsys):
    run_here("index", "--index=index", f"--model={model}", "--images=photos")
    name = os.fsencode(photos / "jay") + b"/\xff.png"
    shutil.copy(photos / "jay" / "0.png", name)
    (photos / "bad.png").write_bytes(b"no image")
    lines = io.BytesIO(b"\n".join([b"photos/owl/1.png", b"gone.png", b"photos/bad.png", b"", name]))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(lines))
    capsys.readouterr()
    with pytest.raises(InvalidInput, match="neighbours for 2 lines"):
        run_here("shell", "--index=index", "--k=2", "--where=label=jay")
    shown = capsys.readouterr()
    rows = [line.split() for line in shown.out.splitlines() if not line.startswith("rank")]
    assert [row[0] for row in rows] == ["photos/owl/1.png", "1", "2", "photos/jay/\\udcff.png", "1", "2"]
    assert rows[4][1:] == ["1.0000", "jay", "photos/jay/0.png"]
    assert [line.split()[0] for line in shown.err.splitlines()] == ["error:", "error:"]
