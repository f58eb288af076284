"""A command in a process of its own that does not import TensorFlow anew; used like a `subprocess.Popen`."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ("tensorflow", "matplotlib.pyplot", "PIL.Image", "scipy.sparse", "sklearn.cluster", "tqdm")
# Libraries read these while they are imported: a command with other values of them needs an interpreter of its own.
READ_BY_IMPORTS = ("CUDA_", "GRPC_", "KERAS_", "KMP_", "LD_", "MKL_", "MPL", "NUMEXPR_", "OMP_", "ONEDNN_", "OPENBLAS_")
READ_BY_IMPORTS += ("PYTHON", "TF_", "XLA_")


class CommandServer:
    """The client's side of `tests/support/command_server.py`; the server ends with the process that started it.

    Args:
        environment: of the server, and so of the imports of all of its commands.
        libraries: what it imports ahead.
    """

    def __init__(self, environment: dict[str, str], libraries: tuple[str, ...] = LIBRARIES):
        self._imported_with = read_by_imports(environment)
        self._control, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.command_server", str(other.fileno()), *libraries],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._connections = []

    def serves(self, environment: dict[str, str]) -> bool:
        return read_by_imports(environment) == self._imported_with

    def ask(self, request: dict, streams: list[int]) -> socket.socket:
        """Sends a request with the three standard streams of its process; returns the connection with it."""
        connection, other = socket.socketpair()
        with other:
            socket.send_fds(self._control, [b"+"], [other.fileno(), *streams])
        self._connections.append(connection)
        connection.sendall(json.dumps(request).encode() + b"\n")
        return connection

    def close(self) -> int:
        """Ends the server and the commands that still run; theirs is then processor time of this process's children."""
        for connection in self._connections:
            connection.close()
        self._control.close()
        return self._process.wait()


def read_by_imports(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_BY_IMPORTS)}


def environment() -> dict[str, str]:
    """This process's environment, in which a command finds the project and writes no notices of TensorFlow's."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}


@functools.cache
def command_server() -> CommandServer:
    """The one of this process, started by its first use."""
    return CommandServer(environment())


class ServedProcess:
    """`python ARGUMENTS`, forked from the command server.

    Args:
        arguments: `["-m", module, ...]` or `["-c", program, ...]`.
        cwd: the folder in which it starts.
        env: all of its environment variables; `command_server().serves` says whether they will do.
        streams: standard input, output and errors, open files.
        server: who forks it; None: the one of this process.
    """

    def __init__(self, arguments: list[str], cwd, env: dict[str, str], streams, server: CommandServer | None = None):
        self.args, self.returncode = arguments, None
        request = {"arguments": arguments, "folder": str(cwd), "environment": env}
        self._connection = (server or command_server()).ask(request, [stream.fileno() for stream in streams])
        self._received = b""
        self.pid = self._answer(None)

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; after `timeout` seconds `subprocess.TimeoutExpired`, and the process runs on."""
        if self.returncode is None:
            self.returncode = self._answer(timeout)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _answer(self, timeout: float | None) -> int:
        while b"\n" not in self._received:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            more = self._connection.recv(64)
            if not more:
                raise RuntimeError(f"The command server ended before {self.args} did.")
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return int(line)
