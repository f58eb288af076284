"""A process that has imported what every command imports, and starts each command as a fork of itself.

    python -m tests.support.command_server DESCRIPTOR LIBRARY...

Importing TensorFlow takes some five seconds of a processor, a fork some hundredths. A fork is a process like any other:
its own number, arguments, environment, folder, standard streams and signals, the module as its `__main__`, and an exit
by Python's own finalisation. Nothing of this project is imported ahead of the fork, and TensorFlow has started no
thread by then: it makes its context by the first operation. `tests/support/served_process.py` has the other side.

For each command, one byte and four file descriptors come through the socket DESCRIPTOR: a connection and the command's
standard streams. The connection brings one line of JSON, the request; back go the command's process number and, when it
has ended, its exit code (that of a signal is negative), a line each. Who closes the connection before that kills the
command; the server ends when DESCRIPTOR is closed.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import types

NUM_DESCRIPTORS = 4
SECONDS_BETWEEN_LOOKS = 0.01


def import_libraries(names: list[str]) -> None:
    for name in names:
        importlib.import_module(name)
    if "tensorflow" in names:
        assert sys.modules["tensorflow"].keras.Model  # which TensorFlow imports by its first use only
        optimize_graphs(not is_quickly_compiled())


def is_quickly_compiled() -> bool:
    """Whether `make test` asks for it: compiling is most of the time of a program that runs once."""
    return "xla_backend_optimization_level=0" in os.environ.get("XLA_FLAGS", "")


def optimize_graphs(is_optimized: bool) -> None:
    """Let TensorFlow rewrite graphs before their first run, as it does for users, or run them as they were traced.

    Also those of `tf.data`, which are made again by each reading.
    """
    tf = sys.modules["tensorflow"]
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not is_optimized})
    of_data = tf.data.experimental.OptimizationOptions
    chosen = None if is_optimized else False
    of_data.apply_default_optimizations = property(lambda options: chosen, lambda options, value: None)


def serve(control: socket.socket) -> dict | None:
    """Waits for requests. Returns the request in each process that is to be a command, None at the server's end."""
    watchers = set()
    while True:
        watchers -= {watcher for watcher in watchers if os.waitpid(watcher, os.WNOHANG)[0]}
        message, descriptors, _, _ = socket.recv_fds(control, 1, NUM_DESCRIPTORS)
        if not message:
            for watcher in watchers:
                os.waitpid(watcher, 0)  # whose processor time is then counted as ours
            return None
        watcher = os.fork()
        if watcher == 0:
            control.close()
            return watch(socket.socket(fileno=descriptors[0]), descriptors[1:])
        watchers.add(watcher)
        for descriptor in descriptors:
            os.close(descriptor)


def watch(connection: socket.socket, streams: list[int]) -> dict:
    """Forks the command, tells its client how it ends, and exits; returns the request in the command's process only."""
    with connection.makefile("r") as lines:
        request = json.loads(lines.readline())
    command = os.fork()
    if command == 0:
        connection.close()
        take_over(request, streams)
        return request
    for stream in streams:
        os.close(stream)
    try:
        tell(connection, command)
        tell(connection, exit_code_of(command, connection))
    finally:
        os._exit(0)


def tell(connection: socket.socket, number: int) -> None:
    connection.sendall(f"{number}\n".encode())


def exit_code_of(command: int, connection: socket.socket) -> int:
    while True:
        ended, status = os.waitpid(command, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if select.select([connection], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            os.kill(command, signal.SIGKILL)
            os.waitpid(command, 0)
            raise ConnectionResetError("nobody waits for this command any more")


def take_over(request: dict, streams: list[int]) -> None:
    """Makes of this fork what the system makes of a new process: streams, folder, environment, a session of its own."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # a fresh process draws it from the system; `random` does so by itself


def run(arguments: list[str]) -> None:
    """What the interpreter does with `-m MODULE ...` or `-c PROGRAM ...`."""
    kind, what, *others = arguments
    if kind == "-m":
        sys.path[0], sys.argv = os.getcwd(), [what, *others]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.path[0], sys.argv = "", ["-c", *others]
        sys.modules["__main__"] = program = types.ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), program.__dict__)


if __name__ == "__main__":
    import_libraries(sys.argv[2:])
    gc.freeze()  # the forks' collections leave alone, and so shared, what was imported
    received = serve(socket.socket(fileno=int(sys.argv[1])))
    if received is not None:
        run(received["arguments"])
