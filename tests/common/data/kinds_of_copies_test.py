import pytest

from common.data.kinds_of_copies import MANY, choose_copies, chosen_copies
from common.errors import InvalidInput


def test_a_choice_holds_until_the_next_one(tmp_path):
    cache = tmp_path / "cache"
    with pytest.raises(InvalidInput, match=r"--copies.*'shard'.*files, shards.*Did you mean shards"):
        choose_copies(cache, "shard")
    assert chosen_copies(cache) == "files"
    assert not cache.exists()
    for copies in ("shards", "files"):
        choose_copies(cache, copies)
        assert chosen_copies(cache) == copies
    with pytest.raises(InvalidInput, match="--cache_dir"):
        choose_copies(cache / "copies.json", "shards")


def test_many_images_have_shards_unless_they_have_files_already(tmp_path):
    assert [chosen_copies(tmp_path, count) for count in (MANY, MANY + 1)] == ["files", "shards"]
    (tmp_path / "prepared").mkdir()
    assert chosen_copies(tmp_path, MANY + 1) == "files"


@pytest.mark.parametrize("content", ["", "[]", '{"copies": "tar"}', '{"copies": ["files"]}', '{"copies": nul'])
def test_a_damaged_choice_is_refused_and_can_be_made_again(tmp_path, content):
    (tmp_path / "copies.json").write_text(content)
    with pytest.raises(InvalidInput, match=r"copies\.json.*damaged.*--copies"):
        chosen_copies(tmp_path)
    choose_copies(tmp_path, "files")
    assert chosen_copies(tmp_path) == "files"
