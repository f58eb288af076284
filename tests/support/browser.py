"""A headless Chromium over its debugging pipe: what a page logs and asks for, how wide it is, how it looks."""

import json
import os
import select
import shutil
import subprocess
import time

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)


def find_chromium() -> str | None:
    return os.environ.get("CHROMIUM") or next((path for name in NAMES if (path := shutil.which(name))), None)


def need_chromium() -> str:
    """The browser's path; the test skips where there is none."""
    chromium = find_chromium()
    if chromium is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium; or set CHROMIUM to its path)")
    return chromium


class Page:
    """One page of a browser of its own; `events` holds what the browser has told since the last `open`."""

    def __init__(self, chromium: str, profile):
        self.events, self._count = [], 0
        arguments = [chromium, *_OPTIONS, f"--user-data-dir={profile}"]
        # The browser reads commands from descriptor 3 and writes to descriptor 4.
        redirection = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
        self._process = subprocess.Popen(
            ["sh", "-c", redirection, "sh", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._buffer, self._session = b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()

    def open(self, url: str, width: int, height: int = 900, scheme: str = "light") -> None:
        """Loads a page in a window of this size; returns when it has loaded with all its images."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for address in ("about:blank", url):  # a part of the page that is open would be no new page
            self.events = []
            self.call("Page.navigate", url=address)
            self._wait_for("Page.loadEventFired")
        self.evaluate(
            "Promise.all([...document.images].map(image => { image.loading = 'eager'; return image.decode(); }))"
        )

    def evaluate(self, expression: str):
        """The value of an expression of JavaScript; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, uncaught exceptions and requests that failed."""
        found = []
        for event in self.events:
            content = event.get("params", {})
            if event["method"] == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning", "assert"):
                found.append(str(content["args"]))
            elif event["method"] == "Log.entryAdded" and content["entry"]["level"] in ("error", "warning"):
                found.append(content["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(str(content["exceptionDetails"]))
            elif event["method"] == "Network.loadingFailed":
                found.append(content["errorText"])
        return found

    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def call(self, method: str, **parameters) -> dict:
        """The answer to a command of the debugging protocol."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._process.stdin.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]

    def _wait_for(self, name: str) -> None:
        while not any(event["method"] == name for event in self.events):
            self._read()

    def _read(self, seconds: float = 60) -> dict:
        """The next message; an event is kept, too."""
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            assert chunk, "the browser has ended or does not answer"
            self._buffer += chunk
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer = json.loads(message)
        if "method" in answer:
            self.events.append(answer)
        return answer
