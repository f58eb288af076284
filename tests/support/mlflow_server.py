"""A real MLflow server on the loopback interface, with its store in a folder."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

needs_server = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None or importlib.util.find_spec("flask") is None,
    reason="MLflow's server is not installed (pip install '.[mlflow-server]')",
)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def mlflow_server(folder):
    """The address of a server that has answered; it ends with the block."""
    url = f"http://127.0.0.1:{free_port()}"
    arguments = ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--host", "127.0.0.1", "--workers", "1"]
    arguments += ["--artifacts-destination", str(folder / "artifacts"), "--port", url.rpartition(":")[2]]
    env = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with open(folder / "server.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *arguments],
            cwd=folder,
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        wait_for(url, process, folder)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def way_to(url, port):
    """Another address of a server; at the end of the block nobody answers there, as if the server had ended."""
    target, connections = ("127.0.0.1", int(url.rpartition(":")[2])), []

    class Forward(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(target) as other:
                connections.extend((self.request, other))
                back = threading.Thread(target=pass_on, args=(other, self.request), daemon=True)
                back.start()
                pass_on(self.request, other)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Forward, bind_and_activate=False) as server:
        server.allow_reuse_address = server.daemon_threads = True
        server.server_bind()
        server.server_activate()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{port}"
        server.shutdown()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def pass_on(source, sink):
    with contextlib.suppress(OSError):
        while content := source.recv(65536):
            sink.sendall(content)
        sink.shutdown(socket.SHUT_WR)


def wait_for(url, process, folder):
    end = time.monotonic() + 180
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError, urllib.error.URLError):
            if urllib.request.urlopen(f"{url}/health", timeout=5).status == 200:
                return
        time.sleep(0.3)
    raise RuntimeError(f"MLflow's server did not start:\n{(folder / 'server.log').read_text()[-2000:]}")
