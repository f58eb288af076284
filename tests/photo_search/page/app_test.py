import contextlib
import socket
import time

import numpy as np
import pytest
from PIL import Image

from photo_search.index import CalibratedRejection
from photo_search.page import app
from photo_search.page.service import PhotoService
from photo_search.page.uploads import Crop, Refused
from tests.photo_search.conftest import BOUNDARY, HOSTILE_LABEL, LIMITS, ask, form, part, running, upload
from tests.photo_search.page.hostile_files import HTML, encoded, jpeg

pytest.importorskip("fastapi", reason="fastapi is not installed (pip install '.[serve]')")
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def contents_of(path):
    with open(path, "rb") as file:
        return file.read()


def check_refused(answer, statuses):
    """A 4xx with a sentence, nothing of the code, and no markup."""
    status, headers, content = answer
    assert status in statuses, (status, content)
    assert headers["content-type"] == "application/json"
    assert list(content) == ["error"]
    assert len(content["error"]) > 10
    assert "Traceback" not in content["error"]
    assert "<script" not in content["error"]


def test_a_photo_of_the_index_finds_itself(page, gallery_photos, service):
    paths, labels = gallery_photos
    status, headers, found = upload(page, contents_of(paths[5]), "?count=4")
    assert status == 200
    assert [photo["rank"] for photo in found["neighbours"]] == [1, 2, 3, 4]
    first = found["neighbours"][0]
    assert first == {
        **{"rank": 1, "row": 5, "similarity": 1.0, "far": False, "label": labels[5]},
        **{"name": "kea/1.png", "picture": f"/api/photos/5/picture?version={found['version']}"},
    }
    attention = found["query"]["attention"]
    assert np.mean(attention["weights"]) == pytest.approx(1, abs=1e-3)
    assert attention["lowest"] == np.min(attention["weights"])
    assert attention["overlay"].startswith("data:image/jpeg;base64,")
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert not any(name.lower().startswith("access-control") for name in headers)


def test_more_like_one(page, service):
    status, _, found = ask(page, "/api/photos/5/neighbours?count=3&label=kea")
    assert status == 200
    assert [photo["label"] for photo in found["neighbours"]] == ["kea"] * 3
    assert 5 not in [photo["row"] for photo in found["neighbours"]]
    assert found["query"]["row"] == 5
    assert found["query"]["attention"]["highest"] >= 1
    expected = service.gallery.index.neighbors_of([5], 13)
    _, _, found = ask(page, "/api/photos/5/neighbours?count=100")
    assert [photo["row"] for photo in found["neighbours"]] == expected.rows[0].tolist()


def test_a_crop_is_searched_as_the_cropped_file(page, gallery_photos):
    paths, _ = gallery_photos
    with Image.open(paths[5]) as photo:  # 20 x 18 pixels
        cut = encoded(photo.crop((4, 2, 16, 17)), "PNG")
    edges = "crop=0.2,0.1,0.8,0.95&count=14"
    expected = upload(page, cut, "?count=14")[2]
    found = upload(page, contents_of(paths[5]), f"?{edges}")[2]
    assert found["neighbours"] == expected["neighbours"]
    assert found["query"] == expected["query"]
    assert found["neighbours"][0]["similarity"] < 0.9999
    like = ask(page, f"/api/photos/5/neighbours?{edges}")[2]  # of the index: without itself
    rows = [photo["row"] for photo in expected["neighbours"]]
    assert [photo["row"] for photo in like["neighbours"]] == [row for row in rows if row != 5]
    assert like["query"]["attention"] == expected["query"]["attention"]
    whole = upload(page, contents_of(paths[5]), "?crop=0,0,1,1")[2]
    assert whole["neighbours"] == upload(page, contents_of(paths[5]))[2]["neighbours"]


@pytest.mark.parametrize(
    "crop",
    ["", "0,0,1", "0,0,1,1,1", "a,b,c,d", "nan,0,1,1", "0,0,inf,1", "-0.1,0,1,1", "0,0,1,1.01", "0.5,0,0.5,1"]
    + ["0.6,0,0.5,1", "0,0.9,1,0.1", "1" * 300, "<script>"],
)
def test_a_crop_outside_the_photo_is_refused(page, crop):
    for answer in (upload(page, GOOD, f"?crop={crop}"), ask(page, f"/api/photos/1/neighbours?crop={crop}")):
        check_refused(answer, {422})
        assert "crop" in answer[2]["error"]


def test_a_crop_of_a_few_pixels_or_of_a_lost_file_is_refused(page):
    answer = ask(page, "/api/photos/1/neighbours?crop=0,0,0.3,1")
    check_refused(answer, {422})
    assert "6 x 18 pixels; expected at least 8" in answer[2]["error"]
    check_refused(ask(page, "/api/photos/13/neighbours?crop=0,0,1,1"), {404})


def test_a_file_that_is_gone_is_searched_all_the_same(page):
    status, _, found = ask(page, "/api/photos/13/neighbours")
    assert status == 200
    assert found["query"]["picture"] is None
    assert found["query"]["attention"] is None
    assert len(found["neighbours"]) == 12
    check_refused(ask(page, "/api/photos/13/picture"), {404})


def test_the_index_is_described_and_pictures_are_asked_for_by_row(page):
    status, headers, contents = ask(page, "/api/photos/0/picture")
    assert (status, headers["content-type"], contents[:3]) == (200, "image/jpeg", b"\xff\xd8\xff")
    assert ask(page, "/api/photos/0/picture?large=true")[2] == contents  # the photo is small
    check_refused(ask(page, "/api/photos/0/picture?large=9"), {422})
    status, _, found = ask(page, "/api/index")
    assert status == 200
    assert {"name": "kea", "photos": 4} in found["classes"]
    assert {"name": HOSTILE_LABEL, "photos": 1} in found["classes"]
    assert (found["photos"], found["takes_uploads"], found["has_attention"]) == (14, True, True)
    assert found["limits"]["upload_bytes"] == LIMITS.upload_bytes


GOOD = jpeg()
FORMS = {
    "eleven files": ((form(*[part(GOOD)] * 11), CONTENT_TYPE), {400}),
    "a large file beside another": ((form(part(GOOD), part(bytes(LIMITS.upload_bytes + 1))), CONTENT_TYPE), {413}),
    "a hundred files": ((form(*[part(b"x")] * 100), CONTENT_TYPE), {400}),
    "no file": ((form(), CONTENT_TYPE), {400}),
    "a field instead of a file": ((form(part(GOOD, filename="", kind="")), CONTENT_TYPE), {400}),
    "a file and a field": ((form(part(GOOD), part(b"x", "more", "", "")), CONTENT_TYPE), {400}),
    "markup as the name of the field": ((form(part(GOOD, name="<script>")), CONTENT_TYPE), {400}),
    "another content type": ((GOOD, "image/jpeg"), {415}),
    "a form without files": ((b"photo=/etc/passwd", "application/x-www-form-urlencoded"), {415}),
    "no boundary": ((form(part(GOOD)), "multipart/form-data"), {400}),
    "no end": ((form(part(GOOD))[:-30], CONTENT_TYPE), {400, 422}),
    "no multipart": ((b"\x00" * 1000, CONTENT_TYPE), {400}),
    "too large a body": ((form(part(bytes(LIMITS.upload_bytes + 16_384))), CONTENT_TYPE), {413}),
    "far too large a body": ((form(part(bytes(50 * LIMITS.upload_bytes))), CONTENT_TYPE), {413}),
    "markup as the name of a page": ((form(part(HTML, filename='filename="<script>.jpg"')), CONTENT_TYPE), {415}),
}


@pytest.mark.parametrize(("request_", "statuses"), FORMS.values(), ids=FORMS)
def test_other_forms_are_refused(page, request_, statuses):
    body, kind = request_
    check_refused(ask(page, "/api/search", "POST", body, Content_Type=kind), statuses)


def test_names_of_files_are_not_looked_at(page):
    for name in ("../../etc/passwd", "<script>alert(1)</script>.jpg", "x" * 3000):
        body = form(part(GOOD, filename=f'filename="{name}"'))
        status, _, found = ask(page, "/api/search", "POST", body, Content_Type=CONTENT_TYPE)
        assert status == 200
        assert name not in str(found)


def test_parameters_paths_and_methods_that_there_are_not(page):
    queries = ["count=NaN", "count=0", "count=101", f"count={'9' * 5000}", "count=", "count=<script>"]
    queries += ["where=year", "where=year=1", f"where={'a' * 2000}", "&".join(["where=a=1"] * 21)]
    queries += ["label=", "label=wren", "label=%00", "label=%ff%fe", "label=../../etc", f"label={'a' * 2000}"]
    for query in queries:
        check_refused(upload(page, GOOD, f"?{query}"), {422})
        check_refused(ask(page, f"/api/photos/1/neighbours?{query}"), {422})
    paths = ["/api/photos/14/picture", "/api/photos/99999999999999999/neighbours", "/api/photos/-1/picture"]
    paths += ["/api/photos/..%2f..%2fetc%2fpasswd/picture", "/docs", "/openapi.json", "/page.html", "/app.py"]
    paths += ["/api/photos/../../etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd"]
    for path in paths:
        check_refused(ask(page, path), {404, 422})
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        check_refused(ask(page, "/api/search", method), {405})
    check_refused(ask(page, "/", "POST"), {405})


def test_other_sites_are_refused_and_the_page_itself_may_ask(page):
    foreign = [
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ]
    for headers, status in foreign:
        check_refused(ask(page, "/api/index", **headers), {status})
        check_refused(upload(page, GOOD, **headers), {status})
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert ask(page, "/", **followed)[0] == 200  # links may lead to the page alone
    assert ask(page, "/api/photos/0/picture", **followed)[0] == 403
    own = f"127.0.0.1:{page}"
    assert upload(page, GOOD, Origin=f"http://{own}", **{"Sec-Fetch-Site": "same-origin"})[0] == 200
    assert upload(page, GOOD, Host=f"localhost:{page}", Origin=f"http://localhost:{page}")[0] == 200


def test_what_is_no_request(page):
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", bytes(100_000)):
        with socket.create_connection(("127.0.0.1", page), timeout=30) as connection:
            connection.sendall(request)
            assert connection.recv(100).split()[1][:1] == b"4"
    assert ask(page, "/api/index")[0] == 200


def test_an_upload_that_breaks_off_harms_nothing(page):
    with socket.create_connection(("127.0.0.1", page), timeout=30) as connection:
        head = (
            f"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: 99999\r\n"
        )
        connection.sendall(head.encode() + b"\r\n" + form(part(GOOD))[:200])
    assert upload(page, GOOD)[0] == 200


def test_half_sent_headers_block_nobody(service, monkeypatch):
    for name in ("_SECONDS_FOR_HEADERS", "_SECONDS_KEPT"):
        monkeypatch.setattr(f"photo_search.page.server.{name}", 1)
    with running(service) as port, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 10)) for _ in range(64)]
        for number, each in enumerate(slow):  # some after a whole request on the same connection
            whole = b"GET /api/index HTTP/1.1\r\nHost: localhost\r\n\r\n" if number % 2 else b""
            each.sendall(whole + b"GET / HTTP/1.1\r\nHost: loc")
        started = time.monotonic()
        while (status := ask(port, "/api/index")[0]) == 503 and time.monotonic() < started + 10:
            time.sleep(0.1)
        assert status == 200
        for each in slow:
            while each.recv(65536):
                pass  # up to the end that the page has made
        assert time.monotonic() < started + 10


def test_slow_uploads_keep_nobody_out_and_are_ended(service, monkeypatch):
    monkeypatch.setattr(app, "_SECONDS_PER_UPLOAD", 2.0)
    with running(service) as port, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 20)) for _ in range(8)]
        head = (
            f"POST /api/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: 9999\r\n"
        )
        for each in slow:
            each.sendall(head.encode() + b"\r\n" + form(part(GOOD))[:20])
        assert [upload(port, GOOD)[0] for _ in range(3)] == [200] * 3
        for each in slow:
            assert b" 408 " in each.recv(65536).partition(b"\r\n")[0]


def test_several_photos_of_one_thing_find_classes(page, gallery_photos, service, monkeypatch):
    paths, _ = gallery_photos
    body = form(*[part(contents_of(path)) for path in (paths[4], paths[6])])
    status, _, found = ask(page, "/api/search?count=3", "POST", body, Content_Type=CONTENT_TYPE)
    assert (status, found["query"]["attention"], found["verdict"]) == (200, None, None)
    index = service.gallery.index
    expected = index.search_together(index.vectors([4, 6]), 3)
    assert [photo["label"] for photo in found["neighbours"]] == expected.labels[0]
    assert [photo["row"] for photo in found["neighbours"]][1:] == expected.rows[0].tolist()[1:]
    assert found["neighbours"][0]["row"] in (4, 6)
    assert len({photo["label"] for photo in found["neighbours"]}) == 3
    assert not any(photo["far"] for photo in found["neighbours"])
    first, second, _ = (photo["similarity"] for photo in found["neighbours"])
    alone = upload(page, contents_of(paths[4]))[2]["neighbours"][0]["similarity"]
    for together, threshold, verdict in (
        *((2, first, "known"), (2, first + 1e-6, "unlike everything in the index")),
        (1, alone, "known"),  # classes too small for two: the first photo decides
    ):
        rejection = CalibratedRejection(threshold, 0, 0, 1, None, 20, 0, together)
        monkeypatch.setattr(service.gallery, "rejection_of", {1: rejection, 2: rejection}.get)
        judged = ask(page, "/api/search?count=2", "POST", body, Content_Type=CONTENT_TYPE)[2]
        assert judged["verdict"] == verdict
        assert judged["neighbours"][1]["far"]


def test_too_many_requests(service, monkeypatch):
    monkeypatch.setattr("photo_search.page.guards._LONGEST_WAIT", 2)
    limited = PhotoService(service.gallery, None, LIMITS._replace(searches_per_minute=3))
    with running(limited) as port:
        check_refused(upload(port, GOOD), {409})  # there is no model
        limited.like(1, 3, None)
        with pytest.raises(Refused, match="without --model"):
            limited.like(1, 3, None, crop=Crop(0, 0, 0.5, 1))
        assert [ask(port, "/api/photos/1/neighbours")[0] for _ in range(3)] == [200, 200, 429]
        status, headers, content = ask(port, "/api/photos/1/neighbours")
        assert status == 429
        assert 1 <= int(headers["retry-after"]) <= 20
        assert "3 searches per minute" in content["error"]
        assert ask(port, "/api/index")[0] == 200


def test_a_mistake_in_the_code_is_said_without_a_traceback(service, monkeypatch, capfd):
    broken = PhotoService(service.gallery, None, LIMITS)
    monkeypatch.setattr(broken, "describe", lambda: 1 / 0)
    with running(broken) as port:
        check_refused(ask(port, "/api/index"), {500})
    assert "ZeroDivisionError" in capfd.readouterr().err
