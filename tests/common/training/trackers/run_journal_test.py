from common.training.trackers.run_journal import JOURNAL, RunJournal


def test_each_place_has_its_own_key_which_stays(tmp_path):
    first, other = RunJournal(tmp_path, "mlflow a"), RunJournal(tmp_path, "wandb b")
    assert not first.is_open
    assert not (tmp_path / JOURNAL).exists()
    key = first.key()
    assert len(key) == 32
    other = RunJournal(tmp_path, "wandb b")
    assert not other.is_open
    assert other.key() != key
    again = RunJournal(tmp_path, "mlflow a")
    assert again.is_open
    assert again.key() == key


def test_a_damaged_file_begins_anew(tmp_path):
    (tmp_path / JOURNAL).write_text('{"here": {"key":')
    assert RunJournal(tmp_path, "here").last_step == 0
