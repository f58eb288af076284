import json
import zipfile

import numpy as np
import pytest

from common.diagnostics import diagnose, evaluate_clustering, generalization_gap
from common.errors import InvalidInput
from common.files import write_arrays
from common.retrieval import (
    class_table,
    evaluate_hierarchy,
    evaluate_retrieval,
    nearest_centroid_accuracy,
    open_set_rejection,
    operating_point_inconsistency,
    verify_pairs,
)
from experiments.protocols.embedding_files import read_embeddings
from tests.support.command_line import check_clean_failure, done_here, run_here


def save(path, seed, num_items=60, **changes):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 6, num_items) + 2**53
    embeddings = np.random.default_rng(9).normal(size=(6, 8))[labels - 2**53] + rng.normal(size=(num_items, 8))
    arrays = {"embeddings": embeddings.astype(np.float32), "labels": labels, **changes}
    np.savez(path, **arrays)
    return arrays["embeddings"], arrays["labels"]


def score(*arguments):
    return run_here("experiments.evaluate", *arguments)


def scored(*arguments):
    return done_here("experiments.evaluate", *arguments)


def test_a_path_twice_is_refused(tmp_path):
    save(tmp_path / "x.npz", 0, num_items=3, paths=np.array(["a.jpg", "b.jpg", "./a.jpg"]))
    with pytest.raises(InvalidInput, match="a.jpg in rows 0 and 2 .*would find itself"):
        read_embeddings("--embeddings", str(tmp_path / "x.npz"))


def test_a_query_in_its_gallery_is_refused(tmp_path):
    paths = np.array([f"/d/{row}.jpg" for row in range(60)])
    save(tmp_path / "gallery.npz", 0, paths=paths)
    save(tmp_path / "queries.npz", 1, num_items=3, paths=np.array(["/d/./5.jpg", "/e/1.jpg", "/d/x/../7.jpg"]))
    finished = score(f"--embeddings={tmp_path}/queries.npz", f"--gallery={tmp_path}/gallery.npz")
    check_clean_failure(finished, "--gallery", "2 of the 3 queries, such as /d/5.jpg", "a query would find itself")


def test_items_without_a_label_are_left_out_and_counted(tmp_path):
    embeddings, labels = save(tmp_path / "all.npz", 0)
    kept = np.arange(60) % 4 > 0
    save(tmp_path / "some.npz", 0, labels=np.where(kept, labels - 2**53 + 1, 0), class_names=np.array(["", *"abcdef"]))
    finished = scored(f"--embeddings={tmp_path}/some.npz", f"--json={tmp_path}/some.json")
    found = json.loads((tmp_path / "some.json").read_text())
    expected = evaluate_retrieval(embeddings[kept], labels[kept], recall_at=(1, 2, 4, 8)).as_dict()
    for name, value in found["metrics"].items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-12)
    assert found["num_unlabelled"] == 15
    assert "15 items without a label are left out." in finished.stdout
    save(tmp_path / "minus.npz", 0, labels=np.where(kept, labels, -1))
    check_clean_failure(score(f"--embeddings={tmp_path}/minus.npz"), "query labels", "-1 for 15 of 60", "Leave")


def test_classes_of_two_files_are_compared_by_name(tmp_path):
    embeddings, labels = save(tmp_path / "all.npz", 0)
    codes, names = labels - 2**53, np.array([*"abcdef"])
    has = codes[:20] > 2  # the queries' file numbers their three classes from 0
    save(tmp_path / "gallery.npz", 0, embeddings=embeddings[20:], labels=codes[20:], class_names=names)
    arrays = {"embeddings": embeddings[:20][has], "labels": codes[:20][has] - 3}
    save(tmp_path / "queries.npz", 0, **arrays, class_names=names[3:])
    gallery = f"--gallery={tmp_path}/gallery.npz"
    scored(f"--embeddings={tmp_path}/queries.npz", gallery, f"--json={tmp_path}/found.json")
    expected = evaluate_retrieval(embeddings[:20][has], codes[:20][has], embeddings[20:], codes[20:])
    found = json.loads((tmp_path / "found.json").read_text())["metrics"]
    np.testing.assert_allclose(found["P@1"], expected.precision_at_1)
    save(tmp_path / "numbers.npz", 0, **arrays)
    check_clean_failure(score(f"--embeddings={tmp_path}/numbers.npz", gallery), "class_names in one file")


def test_several_labels_and_levels_of_labels(tmp_path):
    embeddings, labels = save(tmp_path / "ids.npz", 0)
    several = np.eye(6, dtype=bool)[labels - 2**53] | np.eye(6, dtype=bool)[0]
    levels = np.stack([labels, labels // 2], axis=1)
    expected = {
        "several": evaluate_retrieval(embeddings, several).as_dict(),
        "levels": evaluate_hierarchy(embeddings, levels).as_dict(),
    }
    assert expected["levels"]["L2 P@1"] == evaluate_retrieval(embeddings, labels // 2).precision_at_1
    for name, matrix in {"several": several, "levels": levels}.items():
        save(tmp_path / f"{name}.npz", 0, labels=matrix)
        finished = scored(f"--embeddings={tmp_path}/{name}.npz", f"--json={tmp_path}/{name}.json")
        metrics = json.loads((tmp_path / f"{name}.json").read_text())["metrics"]
        assert metrics == {key: value for key, value in expected[name].items() if not key.startswith("num_")}
        assert all(f"{100 * value:8.2f}" in finished.stdout for value in metrics.values())
        refused = score(f"--embeddings={tmp_path}/{name}.npz", "--clustering")
        check_clean_failure(refused, "--clustering", "Give labels [items]")


def test_scores_a_file_with_all_metrics(tmp_path):
    data, training = save(tmp_path / "x.npz", 0), save(tmp_path / "train.npz", 1)
    json_path = tmp_path / "scores.json"
    finished = scored(
        f"--embeddings={tmp_path}/x.npz",
        "--map",
        "--clustering",
        "--recall_at=1,5",
        f"--json={json_path}",
        "--diagnostics",
        f"--training={tmp_path}/train.npz",
    )
    found = json.loads(json_path.read_text())
    expected = evaluate_retrieval(*data, recall_at=(1, 5), average_precision=True, tie_bounds=True)
    assert found["metrics"] == {
        name: pytest.approx(value)
        for name, value in {**expected.as_dict(), **evaluate_clustering(*data).as_dict()}.items()
        if not name.startswith("num_")
    }
    assert found["tie_bounds"]["MAP@R"] == {"lowest": expected.map_at_r, "highest": expected.map_at_r}
    for name, value in found["metrics"].items():
        assert f"{name:<10}{100 * value:8.2f}" in finished.stdout
    assert "60 queries" in finished.stdout
    assert found["diagnostics"] == diagnose(*data).as_dict()
    for name, value in found["diagnostics"].items():
        assert f"{name:<16}{value:10.4f}" in finished.stdout
    gap = generalization_gap(*data, *training)
    assert found["generalization_gap"] == pytest.approx(gap)
    assert f"P@1 of test minus training: {100 * gap['P@1']:+.2f}" in finished.stdout


def test_adds_the_metrics_that_are_named(tmp_path):
    queries, gallery = save(tmp_path / "q.npz", 0), save(tmp_path / "g.npz", 1)
    queries[1][:4] = 7  # a class that the gallery lacks
    np.savez(tmp_path / "q.npz", embeddings=queries[0], labels=queries[1])
    arguments = f"--embeddings={tmp_path}/q.npz", f"--gallery={tmp_path}/g.npz", f"--json={tmp_path}/s.json"
    finished = scored(*arguments, "--metrics=verification,opis,centroid,open_set,classes")
    found = json.loads((tmp_path / "s.json").read_text())
    rejection, pairs = open_set_rejection(*queries, *gallery), verify_pairs(*queries, *gallery)
    expected = {
        **pairs.as_dict(),
        "OPIS": operating_point_inconsistency(*queries, *gallery),
        "NCM": nearest_centroid_accuracy(*queries, *gallery),
        **rejection.as_dict(),
    }
    assert {name: found["metrics"][name] for name in expected} == expected
    for name, value in expected.items():
        assert f"{name:<10}{100 * value:8.2f}" in finished.stdout
    table = class_table(evaluate_retrieval(*queries, *gallery), queries[1])
    assert [row["label"] for row in found["classes"]] == table.labels.tolist()
    assert [row["MAP@R"] for row in found["classes"]] == table.map_at_r.tolist()
    assert found["gallery"] == [60, 8]
    worst = min(found["classes"], key=lambda row: row["MAP@R"])
    line = next(line for line in finished.stdout.splitlines() if line.startswith(str(worst["label"])))
    assert line.split()[1:] == [str(worst["num_queries"]), *(f"{100 * worst[n]:.2f}" for n in ("P@1", "P@R", "MAP@R"))]
    check_clean_failure(score(*arguments, "--metrics=centroids"), "--metrics", "Did you mean centroid?")
    check_clean_failure(score(f"--embeddings={tmp_path}/g.npz", "--metrics=open_set"), "and 0 without")
    left_out = ("--metrics=open_set", "--left_out_classes=2", "--seed=3", f"--json={tmp_path}/s.json")
    scored(f"--embeddings={tmp_path}/g.npz", *left_out)
    chosen = np.random.default_rng(3).choice(np.unique(gallery[1]), 2, replace=False)
    expected = open_set_rejection(*gallery, left_out=chosen).as_dict()
    found = json.loads((tmp_path / "s.json").read_text())["metrics"]
    assert {name: found[name] for name in expected} == expected


def test_photos_of_one_encounter_are_on_one_side_alone(tmp_path):
    """Two photos of each minute are alike, of whatever class."""
    times = [
        f"2026-05-0{1 + day}T10:0{minute}:{second}" for day in range(2) for minute in range(4) for second in (10, 40)
    ]
    paths = [str(tmp_path / f"{row}.jpg") for row in range(16)]
    points, labels = np.repeat(np.random.default_rng(0).normal(size=(8, 4)), 2, axis=0), np.arange(16) // 4
    table = "\n".join(["path,time", *(f"{row}.jpg,{time}" for row, time in enumerate(times))])
    (tmp_path / "photos.csv").write_text(table)
    np.savez(tmp_path / "e.npz", embeddings=points, labels=labels, paths=paths)
    scored(f"--embeddings={tmp_path}/e.npz", f"--encounters={tmp_path}/photos.csv", f"--json={tmp_path}/s.json")
    found = json.loads((tmp_path / "s.json").read_text())
    expected = evaluate_retrieval(points[::2], labels[::2])
    assert (found["metrics"]["P@1"], found["num_repeated"]) == (expected.as_dict()["P@1"], 8)
    np.savez(tmp_path / "q.npz", embeddings=points[:6], labels=labels[:6], paths=paths[:6])
    np.savez(tmp_path / "g.npz", embeddings=points[5:], labels=labels[5:], paths=paths[5:-1] + ["other.jpg"])
    arguments = f"--embeddings={tmp_path}/q.npz", f"--gallery={tmp_path}/g.npz"
    check_clean_failure(score(*arguments), "with 1 of the 6 queries")
    np.savez(tmp_path / "g.npz", embeddings=points[7:], labels=labels[7:], paths=paths[7:])
    np.savez(tmp_path / "q.npz", embeddings=points[:7], labels=labels[:7], paths=paths[:7])
    finished = scored(*arguments, f"--encounters={tmp_path}/photos.csv")
    assert "1 queries of an encounter that is there already are left out." in finished.stdout
    (tmp_path / "photos.csv").write_text(table.replace(times[3], "noon"))
    check_clean_failure(score(*arguments, f"--encounters={tmp_path}/photos.csv"), "line 5", "time 'noon'")


def test_scores_a_run_by_its_folder_or_its_file_with_the_recalls_of_its_data_set(tmp_path):
    queries, gallery = save(tmp_path / "q.npz", 0), save(tmp_path / "g.npz", 1, num_items=31)
    names = ("queries", "query_labels", "gallery", "gallery_labels")
    write_arrays(tmp_path / "test_embeddings.npz", dict(zip(names, (*queries, *gallery))))
    (tmp_path / "config.json").write_text('{"dataset": "inshop"}')
    expected = evaluate_retrieval(*queries, *gallery, recall_at=(1, 10, 20, 30)).as_dict()
    for place in (tmp_path, tmp_path / "test_embeddings.npz"):
        scored(f"--embeddings={place}", f"--json={tmp_path}/s.json")
        assert json.loads((tmp_path / "s.json").read_text())["metrics"] == {
            name: pytest.approx(value) for name, value in expected.items() if not name.startswith("num_")
        }
    check_clean_failure(score(f"--embeddings={tmp_path}", f"--gallery={tmp_path}/g.npz"), "--gallery", "its own")
    (tmp_path / "test_embeddings.npz").unlink()
    check_clean_failure(score(f"--embeddings={tmp_path}"), "test_embeddings.npz is missing")


def test_scores_a_sample_of_the_queries(tmp_path):
    data = save(tmp_path / "x.npz", 0, num_items=300)
    finished = scored(
        f"--embeddings={tmp_path}/x.npz",
        "--sample_queries=120",
        "--seed=4",
        "--similarity=inner_product",
        f"--json={tmp_path}/s.json",
    )
    expected = evaluate_retrieval(*data, similarity="inner_product", sample_queries=120, seed=4)
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["metrics"]["MAP@R"] == expected.map_at_r
    assert (found["num_queries"], found["sampled_from"]) == (120, 300)
    low, high = expected.intervals["MAP@R"]
    assert found["intervals"]["MAP@R"] == {"lowest": low, "highest": high}
    assert f"[{100 * low:5.2f}, {100 * high:5.2f}]" in finished.stdout
    assert "120 queries of 300, drawn at random" in finished.stdout


def bad_files(folder):
    save(folder / "nan.npz", 0, embeddings=np.full((60, 2), np.nan))
    save(folder / "floats.npz", 0, labels=np.zeros(60))
    save(folder / "pickled.npz", 0, labels=np.array([None] * 60, dtype=object))
    save(folder / "scalar.npz", 0, embeddings=np.float32(1))
    np.savez(folder / "unnamed.npz", np.zeros(3))
    np.save(folder / "single.npy", np.zeros((3, 2)))
    (folder / "text.npz").write_text("no archive")
    (folder / "empty.npz").write_bytes(b"")
    write_archive(folder / "endless.npz", b"{'descr': '<f8', 'fortran_order': False, 'shape': (5000000000000, 1), }")
    np.savez_compressed(folder / "flipped.npz", embeddings=np.zeros((60, 99)), labels=np.arange(60))
    content = bytearray((folder / "flipped.npz").read_bytes())
    content[60:90] = bytes(30)
    (folder / "flipped.npz").write_bytes(content)


def write_archive(path, header):
    """An archive of two arrays whose headers state what they like."""
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("embeddings", "labels"):
            archive.writestr(f"{name}.npy", content)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.npz", "--embeddings.*missing.npz.*existing .npz file.*np.savez"),
        ("pickled.npz", "--embeddings.*pickled.npz.*NumPy archive.*np.savez"),
        ("unnamed.npz", "--embeddings.*arr_0.*embeddings and labels"),
        ("scalar.npz", "--embeddings.*scalar.npz with a single number.*\\[items, dim\\]"),
        ("single.npy", "--embeddings.*named arrays.*np.savez"),
        ("text.npz", "--embeddings.*text.npz.*NumPy archive.*np.savez"),
        ("empty.npz", "--embeddings.*empty.npz.*NumPy archive.*np.savez"),
        ("endless.npz", "--embeddings.*endless.npz.*36.4 TiB.*expected arrays that fit into memory"),
        ("flipped.npz", "--embeddings.*flipped.npz.*NumPy archive.*np.savez"),
    ],
)
def test_files_that_are_no_archive_of_embeddings_are_refused(tmp_path, name, message):
    bad_files(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        read_embeddings("--embeddings", str(tmp_path / name))


@pytest.mark.parametrize(
    ("arguments", "phrases"),
    [
        ([], ["--embeddings"]),
        (["--embeddings=nan.npz"], ["Invalid embeddings: received 'NaN or infinity in row 0'"]),
        (["--embeddings=floats.npz", "--seed=1"], ["--seed would have no effect", "--clustering", "--diagnostics"]),
        (["--embeddings=floats.npz", "--json=no/such/folder/scores.json"], ["--json", "folder that exists"]),
        (["--embeddings=floats.npz", "--sample_queries=99"], ["--sample_queries=99", "100"]),
        (["--embeddings=floats.npz"], ["labels", "integers [60]"]),
        (["--embeddings=floats.npz", "--clustering", "--seed=4294967296"], ["--seed=4294967296", "[0, 4294967295]"]),
        (["--embeddings=floats.npz", "--recall_at=0,2"], ["--recall_at", "at least 1"]),
        (["--embeddings=floats.npz", f"--recall_at=1,{5000 * '9'}"], ["--recall_at", "at least 1"]),
    ],
)
def test_bad_input_ends_in_one_message(tmp_path, arguments, phrases):
    bad_files(tmp_path)
    check_clean_failure(score(*(argument.replace("ngs=", f"ngs={tmp_path}/") for argument in arguments)), *phrases)
