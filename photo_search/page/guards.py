"""Guards of the page against foreign hosts and origins and excessive requests.

Any site in its user's browser can reach a page on the loopback interface: by a form or a script that sends a request
(cross-site request forgery), or by a domain that points to this machine (DNS rebinding). The first has another
`Origin`, the second another `Host`; both are refused, like requests too many or too large. Starlette's
`TrustedHostMiddleware` allows no set of addresses, which a page for other machines needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from photo_search.page.uploads import Refused

FORM_BYTES = 16_384  # of a form, beside its file
_OTHERS_PER_SEARCH = 50  # requests for pictures and the like
_UPLOADS_AT_ONCE = 4  # of the largest size
_SECONDS, _BYTES = 5.0, 100_000  # an upload sends so many bytes in so many seconds, or ends
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


def refusal(error: Refused) -> JSONResponse:
    """Answer a refused request by an object with an `error`."""
    headers = None if error.seconds is None else {"retry-after": str(error.seconds)}
    return JSONResponse({"error": str(error)}, error.status, headers)


class Rate:
    """A token bucket: a minute's requests at once, then at their rate (> 0)."""

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


class UploadRoom:
    """Bytes that all uploads in progress may hold together.

    An upload counts what it has sent, so slow ones take no room from others; those below 20 kB/s are refused.
    """

    def __init__(self, upload_bytes: int) -> None:
        self._left = _UPLOADS_AT_ONCE * (upload_bytes + FORM_BYTES)

    @contextlib.contextmanager
    def receiving(self, receive: Receive) -> Iterator[Receive]:
        """Give room to a request's messages until its answer is known."""
        clock = asyncio.get_running_loop().time
        held, since_begin, end = 0, 0, clock() + _SECONDS

        async def received() -> Message:
            nonlocal held, since_begin, end
            try:
                message = await asyncio.wait_for(receive(), max(0.0, end - clock()))
            except asyncio.TimeoutError as error:
                raise Refused(408, f"The upload is slower than {_BYTES / _SECONDS:,.0f} bytes a second.") from error
            size = len(message.get("body", b""))
            if size > self._left:
                raise Refused(503, "Other uploads are in progress. Wait 2 s.", 2)
            self._left, held, since_begin = self._left - size, held + size, since_begin + size
            if since_begin >= _BYTES:
                since_begin, end = 0, clock() + _SECONDS
            return message

        try:
            yield received
        finally:
            self._left += held


class Hosts:
    """Lower-case names without a port that requests may use for the page.

    A page that other machines may open takes any IP address, too: what a domain name is made to point to is no concern
    there, for the browser then sends the name.
    """

    def __init__(self, names: frozenset[str], any_address: bool = False) -> None:
        self._names, self._any_address = names, any_address

    def allow(self, header: str) -> bool:
        """Check that a `Host` header names this page."""
        try:
            name = urlsplit(f"//{header}").hostname or ""
            _ = urlsplit(f"//{header}").port  # refuses non-numbers
            if name.lower() in self._names:
                return True
            return self._any_address and bool(ipaddress.ip_address(name))
        except ValueError:
            return False


class Guard:
    """An ASGI application around the page; refusals are JSON objects with an `error`.

    Its limits are the bytes of a file and, over all clients, searches per minute; of other requests, 50 times as many.
    """

    def __init__(self, app: ASGIApp, *, hosts: Hosts, upload_bytes: int, searches_per_minute: int) -> None:
        self._app, self._hosts, self._upload_bytes = app, hosts, upload_bytes
        self._searches, self._others = Rate(searches_per_minute), Rate(_OTHERS_PER_SEARCH * searches_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app = self._app
        try:
            self._check(Request(scope))
        except Refused as error:
            app = refusal(error)
        await app(scope, _limited(receive, self._upload_bytes), _with_headers(send))

    def _check(self, request: Request) -> None:
        if not self._hosts.allow(request.headers.get("host", "")):
            raise Refused(421, "This page is not served under the name in the Host header; see --host.")
        if not _is_same_site(request):
            raise Refused(403, "Requests from other sites are refused.")
        path = request.scope["path"]
        is_search = path == "/api/search" or path.endswith("/neighbours")
        rate = self._searches if is_search else self._others
        seconds = math.ceil(rate.wait())
        if seconds:
            allowed = f"{rate.per_minute} {'searches' if is_search else 'requests'} per minute"
            raise Refused(429, f"Too many requests; expected at most {allowed}. Wait {seconds} s.", seconds)


def _is_same_site(request: Request) -> bool:
    """Allow requests by this page, by non-browsers, or to open the page."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{headers.get('host', '')}":
        return False
    is_page = request.method == "GET" and request.scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
    return is_page or headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _limited(receive: Receive, upload_bytes: int) -> Receive:
    """Refuse a body that is too large; the server discards its rest."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > upload_bytes + FORM_BYTES:
            raise Refused(413, f"The upload is too large; expected a file of at most {upload_bytes:,} bytes.")
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return send_more
