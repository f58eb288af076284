import asyncio

import pytest

pytest.importorskip("starlette", reason="starlette is not installed (pip install '.[serve]')")
from photo_search.page import guards
from photo_search.page.guards import Guard, Hosts, Rate

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def test_a_minute_of_searches_at_once_and_then_their_rate():
    now = [0.0]
    rate = Rate(6, lambda: now[0])
    assert [rate.wait() for _ in range(6)] == [0] * 6
    assert rate.wait() == pytest.approx(10)
    now[0] = 9.0
    assert rate.wait() == pytest.approx(1)
    now[0] = 10.0
    assert rate.wait() == 0
    now[0] = 1000.0  # a pause gives one minute's searches, not more
    assert sum(rate.wait() == 0 for _ in range(20)) == 6
    assert [rate.wait(25) for _ in range(4)] == [10, 20, 30, 30]  # the last two are too long, and do not count


def test_own_and_foreign_names():
    for header in ("127.0.0.1:8000", "localhost:8000", "LOCALHOST", "[::1]:8000", "localhost"):
        assert Hosts(LOOPBACK).allow(header)
    foreign = ["", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1"]
    for header in [*foreign, "localhost:port", "[::1", "evil@localhost.example", "localhost:8000:1"]:
        assert not Hosts(LOOPBACK).allow(header)
        assert header == "192.0.2.1" or not Hosts(LOOPBACK, any_address=True).allow(header)


def test_a_page_for_other_machines_takes_addresses_but_no_other_names():
    hosts = Hosts(frozenset({"gallery"}), any_address=True)
    assert hosts.allow("192.0.2.1:8000")
    assert hosts.allow("[2001:db8::1]:8000")
    assert hosts.allow("gallery:8000")
    assert not hosts.allow("evil.example:8000")


def statuses(guard, paths, host="page"):
    """Of GET requests."""

    async def ask(path):
        sent = []

        async def send(message):
            sent.append(message)

        headers = [(b"host", host.encode())]
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
        await guard(scope, asyncio.Event().wait, send)  # nothing more comes
        return sent[0]["status"]

    return [asyncio.run(ask(path)) for path in paths]


def test_neighbours_count_as_searches_and_pictures_do_not(monkeypatch):
    monkeypatch.setattr(guards, "_LONGEST_WAIT", 1)

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    guard = Guard(app, Hosts(frozenset({"page"})), searches_per_minute=2)
    search, picture = "/api/photos/3/neighbours", "/api/photos/3/picture"
    assert statuses(guard, [search, picture, search, picture, search, picture]) == [200, 200, 200, 200, 429, 200]
