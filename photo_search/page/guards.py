"""Guards of the page against foreign hosts and origins and excessive requests.

Any site in its user's browser can reach a page on the loopback interface: by a form or a script that sends a request
(cross-site request forgery), or by a domain that points to this machine (DNS rebinding). The first has another
`Origin`, the second another `Host`; both are refused, like requests too many or too large. Starlette's
`TrustedHostMiddleware` allows no set of addresses, which a page for other machines needs.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from photo_search.page.uploads import Refused

_FORM_BYTES = 16_384  # of a form, beside its file
_LONGEST_WAIT = 30.0  # seconds, of a request that came too early
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


def refusal(error: Refused) -> JSONResponse:
    """Answer a refused request by an object with an `error`."""
    headers = None if error.seconds is None else {"retry-after": str(error.seconds)}
    return JSONResponse({"error": str(error)}, error.status, headers)


class Rate:
    """A token bucket: a minute's requests at once, then at their rate (> 0)."""

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self._now = per_minute, now
        self._left, self._before = float(per_minute), now()

    def wait(self, longest: float = 0.0) -> float:
        """Return the seconds to wait before a request.

        More than `longest`: it does not count.
        """
        now = self._now()
        self._left = min(self.per_minute, self._left + (now - self._before) * self.per_minute / 60)
        self._before = now
        seconds = max(0.0, (1 - self._left) * 60 / self.per_minute)
        if seconds <= longest:
            self._left -= 1
        return seconds


def limited(receive: Receive, upload_bytes: int) -> Receive:
    """Refuse a form whose files are too large; the server discards its rest."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > upload_bytes + _FORM_BYTES:
            raise Refused(413, f"The upload is too large; expected at most {upload_bytes:,} bytes.")
        return message

    return received


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

    Its limits are, over all clients, searches per minute, and of other requests 50 times as many. Earlier ones wait,
    unless that takes too long.
    """

    def __init__(self, app: ASGIApp, hosts: Hosts, searches_per_minute: int) -> None:
        self._app, self._hosts = app, hosts
        self._searches, self._others = Rate(searches_per_minute), Rate(_OTHERS_PER_SEARCH * searches_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        app = self._app
        try:
            await asyncio.sleep(self._wait_of(Request(scope)))
        except Refused as error:
            app = refusal(error)
        await app(scope, receive, _with_headers(send))

    def _wait_of(self, request: Request) -> float:
        """Return the seconds to wait before a request, or refuse it."""
        if not self._hosts.allow(request.headers.get("host", "")):
            raise Refused(421, "This page is not served under the name in the Host header; see --host.")
        if not _is_same_site(request):
            raise Refused(403, "Requests from other sites are refused.")
        path = request.scope["path"]
        is_search = path in ("/api/search", "/api/photos") or path.endswith("/neighbours")
        rate = self._searches if is_search else self._others
        wait = rate.wait(_LONGEST_WAIT)
        if wait > _LONGEST_WAIT:
            seconds = math.ceil(wait)
            allowed = f"{rate.per_minute} {'searches' if is_search else 'requests'} per minute"
            raise Refused(429, f"Too many requests; expected at most {allowed}. Wait {seconds} s.", seconds)
        return wait


def _is_same_site(request: Request) -> bool:
    """Allow requests by this page, by non-browsers, or to open the page."""
    headers = request.headers
    origin = headers.get("origin")
    if origin is not None and origin.replace("https://", "http://", 1) != f"http://{headers.get('host', '')}":
        return False
    is_page = request.method == "GET" and request.scope["path"] == "/" and headers.get("sec-fetch-mode") == "navigate"
    return is_page or headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def _with_headers(send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(_HEADERS)
        await send(message)

    return send_more
