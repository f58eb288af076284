"""`python -m photo_search.serve`, as a user runs it; what its parts do: the other files here."""

import contextlib
import re
import signal
import socket
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace

import pytest

from common.errors import InvalidInput
from photo_search.page import server
from tests.photo_search.conftest import LIMITS, ask, skip_without_extra, upload
from tests.photo_search.page.hostile_files import NO_PHOTOS, encoded, jpeg, photo
from tests.support.command_line import check_clean_failure, run_here, start_program


class Served:
    """A page in a process of its own."""

    def __init__(self, *arguments):
        with contextlib.ExitStack() as stack:
            self.output, self.errors = (stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
            self.files = stack.pop_all()
        self.process = start_program(
            ["-m", "photo_search.serve", "--port=0", *arguments], stdout=self.output, stderr=self.errors
        )
        end = time.monotonic() + 120
        while not (found := re.search(r"at http://127\.0\.0\.1:(\d+)/\. Ctrl-C ends it\.", self.text(self.output))):
            assert self.process.poll() is None, self.text(self.errors)
            assert time.monotonic() < end
            time.sleep(0.05)
        self.port = int(found[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.files.close()

    @staticmethod
    def text(stream):
        stream.seek(0)
        return stream.read()

    def megabytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) / 1000


@pytest.mark.slow
def test_a_hundred_requests_in_bounded_memory_twenty_clients_at_once_and_a_graceful_end(index_folder, gsp_model):
    """Prints answers per second; run it with -s."""
    skip_without_extra()
    hostile = [contents for contents, _, _ in NO_PHOTOS.values()]

    def requests(served, first, last):
        for number in range(first, last):
            size = (200 + 10 * (number % 40), 900 - 10 * (number % 40))
            contents = jpeg(size, number) if number % 2 else encoded(photo(size, seed=number), "PNG")
            assert upload(served.port, contents)[0] == 200
            assert 400 <= upload(served.port, hostile[number % len(hostile)])[0] < 500
            assert ask(served.port, f"/api/photos/{number % 14}/neighbours")[0] == 200
            assert ask(served.port, f"/api/photos/{number % 13}/picture")[0] == 200

    flags = [f"--index={index_folder}", f"--model={gsp_model}", "--searches_per_minute=100000"]
    with Served(*flags) as served:
        requests(served, 0, 5)
        before = served.megabytes()
        requests(served, 5, 25)
        after = served.megabytes()
        print(f"{before:.0f} MB after 20 requests, {after:.0f} MB after 80 more")
        assert after - before < 60
        contents = jpeg((1200, 900))

        def client(number):
            like = f"/api/photos/{number % 13}/neighbours"
            return [
                status for _ in range(2) for status in (upload(served.port, contents)[0], ask(served.port, like)[0])
            ]

        began = time.perf_counter()
        with ThreadPoolExecutor(20) as pool:
            statuses = [status for found in pool.map(client, range(20)) for status in found]
        print(f"{len(statuses) / (time.perf_counter() - began):.1f} answers per second")
        assert statuses == [200] * 80
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 143
        errors = served.text(served.errors)
        assert "Terminated. The index is unchanged." in errors
        assert "Traceback" not in errors


def test_ctrl_c_ends_it(index_folder):
    skip_without_extra()
    with Served(f"--index={index_folder}", "--reject=5") as served:
        assert "The index keeps no model: without --model, only photos of the index" in served.text(served.output)
        stated = ask(served.port, "/api/index")[2]
        assert stated["takes_uploads"] is False
        assert -1 < stated["threshold"] < 1  # of --reject, in percent
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(60) == 130
        assert served.text(served.errors).count("error:") == 1
        with pytest.raises(ConnectionRefusedError):
            ask(served.port, "/")


def test_a_page_for_other_machines_answers_to_the_name_of_this_one(monkeypatch):
    skip_without_extra()
    from tests.photo_search.page.guards_test import statuses

    monkeypatch.setattr(server, "is_loopback", lambda listener: False)
    with server.listen("127.0.0.1", 0) as listener:
        guard = server.make_server(SimpleNamespace(limits=LIMITS), listener, "gallery.example").config.app
    assert statuses(guard, ["/"], socket.gethostname()) == statuses(guard, ["/"], "gallery.example") == [200]
    assert statuses(guard, ["/"], "evil.example") == [421]


def test_a_port_in_use_and_a_bad_flag_end_in_one_message(index_folder):
    skip_without_extra()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        finished = run_here("photo_search.serve", f"--index={index_folder}", f"--port={port}")
    check_clean_failure(finished, "--port", str(port), "Address already in use", "--port=0")
    finished = run_here("photo_search.serve", f"--index={index_folder}", "--max_upload_mb=nan")
    check_clean_failure(finished, "--max_upload_mb")


CASES = [
    ({"index": None}, "Missing --index.*photo_search.search index"),
    ({"index": "nothing"}, "index folder.*nothing.*index.json"),
    ({"port": 70000}, "--port.*70000.*65535"),
    ({"host": "192.0.2.1"}, "--host.*192.0.2.1.*an address of this machine"),
    ({"host": "no host"}, "--host.*no host"),
    ({"model": "nothing.keras"}, "model.*nothing.keras"),
]


@pytest.mark.parametrize(("changes", "message"), CASES, ids=str)
def test_what_is_wrong_is_said_before_anything_is_served(changes, message, index_folder):
    skip_without_extra()
    values = {"index": index_folder, "model": None, "host": "127.0.0.1", "port": 0}
    limits = {"max_upload_mb": 15, "max_megapixels": 25, "searches_per_minute": 120, "reject": 5, "new_photos": None}
    with pytest.raises(InvalidInput, match=message):
        server.serve(SimpleNamespace(**{**values, **limits, **changes}))


def test_other_machines_may_not_write(index_folder):
    arguments = f"--index={index_folder}", "--host=0.0.0.0", "--port=0", "--new_photos=new"
    check_clean_failure(
        run_here("photo_search.serve", *arguments), "--new_photos", "--host=0.0.0.0", "--host=127.0.0.1"
    )


@pytest.mark.parametrize("module", ["fastapi", "uvicorn", "python_multipart"])
def test_without_the_extra_it_is_named(module, monkeypatch):
    for name in ("fastapi", "uvicorn", "python_multipart"):
        monkeypatch.setitem(sys.modules, name, None if name == module else ModuleType(name))
    with pytest.raises(InvalidInput, match=rf"needs fastapi.*{module} is missing.*deep-metric-learning\[serve\]"):
        server.check_packages()
