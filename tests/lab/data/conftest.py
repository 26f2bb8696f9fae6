"""A server for downloads, and a small MNIST on it."""

import gzip
import http.server
import threading

import numpy as np
import pytest
from downloads import Handler, md5
from test_data import IDX_FILES, idx_bytes

from padenet.lab.data import Layout, Source
from padenet.lab.data.readers.idx import read_pairs


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.files, server.log = {}, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def source(server):
    """A function: a small MNIST on the server, to be fetched from these mirrors."""
    rng = np.random.default_rng(0)
    contents = {}
    for name in IDX_FILES:
        n = 40 if name.startswith("train") else 10
        shape = (n, 28, 28) if "images" in name else (n,)
        raw = contents[name] = idx_bytes(rng.integers(0, 10, shape))
        server.files[f"{name}.gz"] = gzip.compress(raw, mtime=0)

    def make(*mirrors):
        root = f"http://127.0.0.1:{server.server_port}"
        return Source(
            (
                Layout("mnist", read_pairs, {n: md5(raw) for n, raw in contents.items()}),
                Layout("MNIST/raw", read_pairs, {n: md5(raw) for n, raw in contents.items()}),
            ),
            tuple(m if m.startswith("http") else f"{root}/{m}/" for m in mirrors),
            {name: md5(raw) for name, raw in server.files.items()},
        )

    return make
