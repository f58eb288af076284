import functools

import pytest

from common.data.image_jobs import run_image_jobs
from common.errors import InvalidInput


def test_every_job_is_done_once_and_all_that_fail_are_named():
    done = []

    def job(number):
        if number < 7:
            raise InvalidInput(f"image {number}.")
        done.append(number)

    run_image_jobs([functools.partial(done.append, number) for number in range(20)], "counting", 20)
    assert sorted(done) == list(range(20))
    done.clear()
    with pytest.raises(InvalidInput, match="image 0. image 1. image 2. image 3. image 4. And 2 more images."):
        run_image_jobs([functools.partial(job, number) for number in range(12)], "failing", 12)
    assert sorted(done) == [7, 8, 9, 10, 11]
    run_image_jobs([], "nothing", 0)
