"""A server of our own, with mirrors that fail in every way a mirror can."""

import hashlib
import http.server
import re
import socket

from padenet.lab import data
from padenet.lab.data import DatasetSpec

CUT = 5000  # bytes that a mirror named "cut…" sends before it hangs up


class Handler(http.server.BaseHTTPRequestHandler):
    """/MIRROR/FILE: what the server does with the file depends on the name of the mirror."""

    def do_GET(self):
        mirror, name = self.path.strip("/").split("/")
        asked = self.headers.get("Range")
        self.server.log.append((mirror, name, asked))
        if mirror == "missing" or name not in self.server.files:
            self.send_error(404)
            return
        raw = self.server.files[name]
        raw = raw[::-1] if mirror == "wrong" else raw
        start = (
            int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and "plain" not in mirror else 0
        )
        if start and start >= len(raw):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(raw)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if start:
            first = 0 if mirror == "shifted" else start
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(raw) - 1}/{len(raw)}")
        else:
            self.send_response(200)
        body = raw[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:CUT] if mirror.startswith("cut") else body)

    def log_message(self, *args):
        pass


def refusing_url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/refused/"


def md5(raw):
    return f"md5:{hashlib.md5(raw).hexdigest()}"


def fetch(source, home, **options):
    return data.fetch("mine", home, datasets=known(source), **options)


def known(source):
    return {"mine": DatasetSpec(title="Mine", source=source)}
