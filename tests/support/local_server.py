"""An HTTP server on the loopback interface that can be told to break connections and to know no ranges."""

import contextlib
import http.server
import re
import threading


class LocalServer:
    """Serves `files` (name: bytes).

    `drops` has a number of bytes of each response after which the connection is cut (None: not), `holds` one after
    which nothing more comes for a while; `ranges` and `tags` say whether the server knows range requests and sends
    entity tags, `lengths` whether it tells lengths; `statuses` has errors that come before anything else;
    `headers` what is added to each answer; `requests` records (name, Range header).
    """

    def __init__(self, files, drops=(), ranges=True, tags=True, statuses=(), lengths=True, holds=(), headers=()):
        self.files, self.drops, self.ranges, self.tags = dict(files), list(drops), ranges, tags
        self.statuses, self.lengths, self.holds, self.requests = list(statuses), lengths, list(holds), []
        self.headers = dict(headers)
        self.closing = threading.Event()
        self.url = ""


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, name = self.server.settings, self.path.lstrip("/")
        asked = self.headers.get("Range")
        server.requests.append((name, asked))
        status = server.statuses.pop(0) if server.statuses else None
        if status or name not in server.files:
            self.send_error(status or 404)
            return
        self._answer(server, server.files[name], asked)

    def _answer(self, server, contents, asked):
        tag = f'"{hash(contents)}"'
        first = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and server.ranges else 0
        if self.headers.get("If-Range") not in (None, tag):
            first = 0
        if first >= len(contents) > 0:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(contents)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if first else 200)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(contents) - 1}/{len(contents)}")
        if server.lengths:
            self.send_header("Content-Length", str(len(contents) - first))
        for header, value in server.headers.items():
            self.send_header(header, value)
        if server.tags:
            self.send_header("ETag", tag)
        self.end_headers()
        drop = server.drops.pop(0) if server.drops else None
        hold = server.holds.pop(0) if server.holds else None
        self.wfile.write(contents[first:][: drop if hold is None else hold])
        if hold is not None:
            self.wfile.flush()
            server.closing.wait(60)
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def local_server(files, **options):
    settings = LocalServer(files, **options)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.settings = settings
    settings.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield settings
    finally:
        settings.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
