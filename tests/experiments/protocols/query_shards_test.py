import json
import types

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.protocols.embedding_files import scores
from experiments.protocols.query_shards import Shard, merged_figures, parse_shard, write_shard

FLAGS = {"gallery": None, "similarity": "euclidean", "recall_at": ["1", "4"], "map": False}
WHOLE = {"sample_queries": None, "clustering": False, "diagnostics": False, "training": None, "metrics": [], "seed": 0}


def save(path, seed=0, num_items=47):
    """Rounded, so that many are tied, with labels of which some stand alone."""
    rng = np.random.default_rng(seed)
    embeddings = np.round(2 * rng.standard_normal((num_items, 2))).astype(np.float32)
    np.savez(path, embeddings=embeddings, labels=rng.integers(0, 20, num_items))
    return str(path)


def values(folder, **changes):
    return types.SimpleNamespace(**{"embeddings": str(folder / "x.npz"), **FLAGS, **WHOLE, **changes})


def shards(folder, total, numbers=None, **changes):
    """Files of shards of `x.npz`."""
    paths = []
    for number in numbers or range(1, total + 1):
        paths.append(str(folder / f"shard_{number}_of_{total}.npz"))
        write_shard(values(folder, shard=f"{number}/{total}", shard_file=paths[-1], **changes))
    return paths


@pytest.mark.parametrize("total", [1, 2, 5, 60])  # of 47 queries
@pytest.mark.parametrize("changes", [{}, {"map": True, "similarity": "inner_product", "gallery": True}])
def test_merged_shards_are_the_figures_of_one_process(tmp_path, total, changes):
    save(tmp_path / "x.npz")
    if "gallery" in changes:
        changes = {**changes, "gallery": save(tmp_path / "gallery.npz", 1, 31)}
    whole = scores(values(tmp_path, **changes))
    assert whole["num_excluded_queries"] > 0
    assert whole["tie_bounds"]["MAP@R"]["lowest"] < whole["tie_bounds"]["MAP@R"]["highest"]
    paths = shards(tmp_path, total, **changes)
    assert merged_figures(paths[::-1]) == whole
    assert merged_figures([str(tmp_path / "shard_*.npz")]) == whole
    assert list(whole) == list(merged_figures(paths))  # the order of the table


@pytest.mark.parametrize(("num_queries", "total"), [(10, 3), (3, 10), (7, 7), (1_000_003, 8)])
def test_shards_are_contiguous_and_as_even_as_can_be(num_queries, total):
    parts = [Shard(number, total).rows(num_queries) for number in range(1, total + 1)]
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert parts[-1].stop == num_queries
    assert {len(part) for part in parts} <= {num_queries // total, -(-num_queries // total)}


@pytest.mark.parametrize(
    "text", ["", "2", "0/4", "5/4", "2/0", "1/2/3", "-1/2", "1.0/2", "a/b", "²/4", f"1/{4000 * '9'}"]
)
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(InvalidInput, match="--shard: received .*expected K/N with K in 1..N, such as 2/4"):
        parse_shard(text)


def test_shards_of_something_else_are_refused(tmp_path):
    save(tmp_path / "x.npz")
    first, second = shards(tmp_path, 2)
    (tmp_path / "other").mkdir()
    gallery = save(tmp_path / "gallery.npz", 1)
    for changes, message in [
        ({"similarity": "inner_product"}, 'shard_1_of_2.npz of --similarity "euclidean".*shard_2.* of "inner_product"'),
        ({"recall_at": ["1", "8"]}, r"--recall_at \[1, 4\].* of \[1, 8\]"),
        ({"map": True}, "--map false.* of true"),
        ({"gallery": gallery}, r"--gallery null.* of \[47, 2\] with SHA-256"),
    ]:
        shards(tmp_path, 2, [2], **changes)
        with pytest.raises(InvalidInput, match=f"--merge.*{message}.*expected shards of the same embeddings"):
            merged_figures([first, second])
    data = dict(np.load(tmp_path / "x.npz"))
    for name in ("embeddings", "labels"):
        np.savez(tmp_path / "x.npz", **{**data, name: data[name][::-1]})
        shards(tmp_path, 2, [2])
        with pytest.raises(InvalidInput, match=r"--embeddings \[47, 2\] with SHA-256.*expected shards of the same"):
            merged_figures([first, second])


def test_missing_and_doubled_shards_are_named(tmp_path):
    save(tmp_path / "x.npz")
    paths = shards(tmp_path, 30, [2, 3, 30])
    with pytest.raises(InvalidInput, match=r"received '3 of 30 shards'.*--shard=1/30, 4/30, .*12/30 and 17 more\.$"):
        merged_figures(paths)
    with pytest.raises(InvalidInput, match="shard 2/30 twice, .*shard_2_of_30.npz and .*shard_2_of_30.npz"):
        merged_figures([*paths, paths[0]])
    of_two = shards(tmp_path, 2, [2])
    with pytest.raises(InvalidInput, match="of shard 2/30, .*of 2/2', expected shards of the same number"):
        merged_figures([paths[0], *of_two])
    paths = shards(tmp_path, 3, [1, 3])
    with pytest.raises(InvalidInput, match="received '2 of 3 shards', expected all of them. Missing: --shard=2/3.$"):
        merged_figures(paths)


def test_files_that_are_no_shards_are_refused(tmp_path):
    save(tmp_path / "x.npz")
    (path,) = shards(tmp_path, 1)
    content = bytearray((tmp_path / "shard_1_of_1.npz").read_bytes())
    content[len(content) // 3] ^= 1
    (tmp_path / "flipped.npz").write_bytes(content)
    (tmp_path / "cut.npz").write_bytes(content[:500])
    np.savez(tmp_path / "poor.npz", **{name: array for name, array in np.load(path).items() if name != "map_at_r"})
    np.savez(tmp_path / "vague.npz", about=np.array("[]"))
    for name, message in [
        ("flipped.npz", "flipped.npz cannot be read.*damaged. Score this shard again."),
        ("cut.npz", "cut.npz cannot be read.*damaged. Score this shard again."),
        ("x.npz", "--merge file .*x.npz, about: received nothing, expected text"),
        ("poor.npz", "--merge file .*poor.npz, map_at_r: received nothing, expected floating-point"),
        ("vague.npz", "--merge file .*vague.npz, rows: received nothing, expected integer"),
        ("none_*.npz", r"--merge: received '.*none_\*.npz', expected a file that --shard has written"),
        ("", "--merge: received '.*', expected a file that --shard has written"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            merged_figures([str(tmp_path / name)])
    with pytest.raises(InvalidInput, match="--merge: received '', expected the files of all shards"):
        merged_figures([])


def about_of(arrays, **changes):
    return np.array(json.dumps({**json.loads(arrays["about"].item()), **changes}))


SPOILED = {
    "text for rows": (lambda a: {"rows": a["rows"].astype(str)}, "rows: received str"),
    "rows in another order": (lambda a: {"rows": a["rows"][::-1]}, "other rows or scores"),
    "rows of another shard": (lambda a: {"rows": a["rows"] + 30}, "other rows or scores"),
    "a precision of 7": (lambda a: {"precision_at_1": 7 * np.ones(len(a["rows"]))}, "precision_at_1: .* from 0 to 1"),
    "NaN": (lambda a: {"map_at_r": np.full(len(a["rows"]), np.nan)}, "map_at_r: received .* from nan to nan"),
    "half ranks": (lambda a: {"first_hit": a["first_hit"] + 0.5}, "first_hit: received float64"),
    "other ranks": (lambda a: {"first_hit": a["first_hit"] + 1}, "other rows or scores"),
    "fewer bounds": (lambda a: {"lowest": a["lowest"][1:]}, "highest: received float64"),
    "bounds exchanged": (lambda a: {"lowest": a["highest"], "highest": a["lowest"]}, "other rows or scores"),
    "a text for a count": (lambda a: {"about": about_of(a, num_excluded_queries="5")}, "received '5', expected an int"),
    "a count below 0": (lambda a: {"about": about_of(a, num_excluded_queries=-5)}, "received -5, expected an integer"),
    "shard 1 of -2": (lambda a: {"about": about_of(a, shard=[1, -2])}, "shard 1: received -2, expected an integer"),
    "shard 2 of 1": (lambda a: {"about": about_of(a, shard=[2, 1])}, "of shard 2/1"),
    "1e12 shards": (lambda a: {"about": about_of(a, shard=[1, 10**12])}, "shard 1: received 1000000000000"),
    "other settings": (lambda a: {"about": about_of(a, settings={"map": False})}, "settings embeddings: .*nothing"),
}


@pytest.mark.parametrize("kind", SPOILED)
def test_shards_that_were_changed_are_refused(kind, tmp_path):
    save(tmp_path / "x.npz")
    (path,) = shards(tmp_path, 1)
    spoil, message = SPOILED[kind]
    arrays = dict(np.load(path))
    np.savez(path, **{**arrays, **spoil(arrays)})
    with pytest.raises(InvalidInput, match=f"Invalid --merge file .*{message}") as raised:
        merged_figures([path])
    assert "\n" not in str(raised.value)


def test_of_very_many_shards_a_few_are_named(tmp_path):
    save(tmp_path / "x.npz")
    (path,) = shards(tmp_path, 999_999_999, [1])
    with pytest.raises(InvalidInput, match=r"--shard=2/999999999, .*11/999999999 and 999999988 more\.$"):
        merged_figures([path])
