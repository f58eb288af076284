"""Guards of the page against foreign hosts and origins and excessive requests.

Any site in its user's browser can reach a page on the loopback interface: by a form or a script that sends a request
(cross-site request forgery), or by a domain that points to this machine (DNS rebinding). The first has another
`Origin`, the second another `Host`; both are refused, like requests too many, too large or too slow.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

FORM_BYTES = 16_384  # of a form, beside its file
_BODIES_AT_ONCE = 4
_SECONDS_PER_BODY = 60.0
_READ_TO_REFUSE = 8  # times the limit: part of an oversized body to read, so that its sender reads the answer
_OTHERS_PER_SEARCH = 50  # requests for pictures and the like
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Refusal(NamedTuple):
    """An answer that ends a request.

    Attributes:
        status: of HTTP.
        message: for people.
        seconds: after which it may be sent again, or None.
    """

    status: int
    message: str
    seconds: int | None = None


class Rate:
    """A token bucket: a minute's requests at once, then at their rate.

    Args:
        per_minute: > 0.
        now: gives the time in seconds.
    """

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self._now = per_minute, now
        self._left, self._before = float(per_minute), now()

    def wait(self) -> float:
        """Count a request; return 0, or the seconds to wait before it."""
        now = self._now()
        self._left = min(self.per_minute, self._left + (now - self._before) * self.per_minute / 60)
        self._before = now
        if self._left < 1:
            return (1 - self._left) * 60 / self.per_minute
        self._left -= 1
        return 0.0


class Hosts:
    """Names that requests may use for the page.

    Args:
        names: in lower case, without a port.
        any_address: whether any IP address will do, for a page that other machines may open: what a domain name is made
            to point to is no concern there, for the browser then sends the name.
    """

    def __init__(self, names: frozenset[str], any_address: bool = False) -> None:
        self._names, self._any_address = names, any_address

    def allow(self, header: str) -> bool:
        """Check that a `Host` header names this page."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
            _ = urlsplit(f"//{header}").port  # refuses non-numbers
        except ValueError:
            return False
        if name.lower() in self._names:
            return True
        return self._any_address and _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """An ASGI application around another one; refusals are JSON objects with an `error`.

    Args:
        app: the page.
        hosts: names by which it may be asked for.
        upload_bytes: most bytes of a file.
        searches_per_minute: most searches, over all clients; of other requests, 50 times as many.
    """

    def __init__(self, app: App, *, hosts: Hosts, upload_bytes: int, searches_per_minute: int) -> None:
        self._app, self._hosts, self._upload_bytes = app, hosts, upload_bytes
        self._searches, self._others = Rate(searches_per_minute), Rate(_OTHERS_PER_SEARCH * searches_per_minute)
        self._num_bodies = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        send = _with_headers(send)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is None and scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        if refusal is None:
            contents = await self._body(receive)
            if isinstance(contents, bytes):
                await self._app(scope, _replayed(contents, receive), send)
                return
            refusal = contents
        await _refuse(send, refusal)

    def _refusal(self, scope: Message, headers: dict[str, str]) -> Refusal | None:
        if not self._hosts.allow(headers.get("host", "")):
            return Refusal(421, "This page is not served under the name in the Host header; see --host.")
        if not _is_same_site(scope, headers):
            return Refusal(403, "Requests from other sites are refused.")
        path = scope["path"]
        is_search = path == "/api/search" or path.endswith("/neighbours")
        rate = self._searches if is_search else self._others
        seconds = math.ceil(rate.wait())
        if seconds:
            allowed = f"{rate.per_minute} {'searches' if is_search else 'requests'} per minute"
            return Refusal(429, f"Too many requests; expected at most {allowed}. Wait {seconds} s.", seconds)
        return None

    async def _body(self, receive: Receive) -> bytes | Refusal:
        """Read the whole body of a request, or return the refusal."""
        if self._num_bodies >= _BODIES_AT_ONCE:
            return Refusal(503, "Other uploads are under way. Wait 2 s.", 2)
        self._num_bodies += 1
        try:
            return await asyncio.wait_for(self._read(receive), _SECONDS_PER_BODY)
        except asyncio.TimeoutError:
            return Refusal(408, f"The upload took longer than {_SECONDS_PER_BODY:g} s.")
        finally:
            self._num_bodies -= 1

    async def _read(self, receive: Receive) -> bytes | Refusal:
        most, parts, size = self._upload_bytes + FORM_BYTES, [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return Refusal(400, "The upload ended before its end.")
            size += len(message.get("body", b""))
            if size <= most:
                parts.append(message.get("body", b""))
            else:
                parts.clear()
            if size > _READ_TO_REFUSE * most or not message.get("more_body", False):
                break
        if size > most:
            return Refusal(413, f"The upload is too large; expected a file of at most {self._upload_bytes:,} bytes.")
        return b"".join(parts)


def _is_same_site(scope: Message, headers: dict[str, str]) -> bool:
    """Allow requests by this page, by non-browsers, or to open the page."""
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{headers.get('host', '')}":
        return False
    is_navigation = scope["method"] == "GET" and scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
    return is_navigation or headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _replayed(contents: bytes, receive: Receive) -> Receive:
    """Return a receiver that replays a body, then continues to receive."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": contents, "more_body": False}

    return replay


def _with_headers(send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            more = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await send(message)

    return send_more


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")]  # the rest of its body is not read
    if refusal.seconds is not None:
        headers.append((b"retry-after", str(refusal.seconds).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
