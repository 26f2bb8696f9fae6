"""Downloads from a server of our own, with mirrors that fail in every way a mirror can."""

import gzip
import hashlib
import http.server
import io
import re
import socket
import tarfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_data import IDX_FILES, idx_bytes

from padenet.cli import main
from padenet.lab import data
from padenet.lab.data import DATASETS, DatasetSpec, Layout, Source
from padenet.lab.data.readers.cifar import read_binary_batches
from padenet.lab.data.readers.idx import read_pairs

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


def refusing_url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/refused/"


def md5(raw):
    return f"md5:{hashlib.md5(raw).hexdigest()}"


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


def fetch(source, home, **options):
    return data.fetch("mine", home, datasets=known(source), **options)


def known(source):
    return {"mine": DatasetSpec(title="Mine", source=source)}


LARGE = f"{IDX_FILES[0]}.gz"


def test_all_files(server, source, tmp_path):
    seen = []
    folder = fetch(source("good"), tmp_path, report=lambda *step: seen.append(step))
    assert folder == tmp_path / "mnist"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == server.files
    assert [seen[0][0], seen[-1][0]] == [LARGE, f"{IDX_FILES[-1]}.gz"]
    assert seen[-1][1] == seen[-1][2] == len(server.files[f"{IDX_FILES[-1]}.gz"])
    server.log.clear()
    assert fetch(source("good"), tmp_path) == folder and server.log == []


def test_a_set_in_another_layout_is_enough(server, source, tmp_path):
    raw = tmp_path / "MNIST/raw"
    raw.mkdir(parents=True)
    for name in IDX_FILES:
        (raw / name).write_bytes(gzip.decompress(server.files[f"{name}.gz"]))
    assert fetch(source("good"), tmp_path) == raw and server.log == []


def test_only_what_is_missing_or_damaged(server, source, tmp_path):
    folder = fetch(source("good"), tmp_path)
    anew = gzip.compress(gzip.decompress(server.files[LARGE]), 1)
    (folder / LARGE).write_bytes(anew)  # the same content, compressed otherwise
    (folder / f"{IDX_FILES[1]}.gz").write_bytes(b"damaged")
    (folder / f"{IDX_FILES[2]}.gz").unlink()
    (folder / IDX_FILES[3]).write_bytes(b"a damaged plain copy beside a good one")
    server.log.clear()
    fetch(source("good"), tmp_path)
    assert [name for _, name, _ in server.log] == [f"{name}.gz" for name in IDX_FILES[1:3]]
    assert (folder / LARGE).read_bytes() == anew
    data.verify("mine", tmp_path, datasets=known(source()))


@pytest.mark.parametrize(
    "mirror, part, requests",
    [
        ("good", lambda raw: raw[:700], ["bytes=700-"]),
        ("plain", lambda raw: raw[:700], ["bytes=700-"]),  # no ranges: all of it is sent
        ("good", lambda raw: raw, ["bytes={size}-"]),  # complete, but not yet renamed
        ("good", lambda raw: raw + b"x", ["bytes={over}-", None]),
        ("good", lambda raw: b"x" * 700, ["bytes=700-", None]),  # the beginning of another file
        ("shifted", lambda raw: raw[:700], ["bytes=700-", None]),
        ("cut", lambda raw: raw[:700], ["bytes=700-", "bytes=5700-", "bytes=10700-"]),
    ],
)
def test_resuming(server, source, tmp_path, mirror, part, requests):
    raw = server.files[LARGE]
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / f"{LARGE}.part").write_bytes(part(raw))
    fetch(source(mirror), tmp_path)
    assert (tmp_path / "mnist" / LARGE).read_bytes() == raw
    assert not list(tmp_path.rglob("*.part"))
    asked = [ranged for _, name, ranged in server.log if name == LARGE]
    sizes = {"size": len(raw), "over": len(raw) + 1}
    expected = [text.format(**sizes) if text else None for text in requests]
    assert asked == expected


@pytest.mark.parametrize("bad", ["missing", "wrong", "cut-plain", "refused"])
def test_the_next_mirror(server, source, tmp_path, bad):
    first = refusing_url() if bad == "refused" else bad
    fetch(source(first, "good"), tmp_path)
    assert (tmp_path / "mnist" / LARGE).read_bytes() == server.files[LARGE]


def test_every_mirror_fails(server, source, tmp_path):
    mirrors = source("missing", "wrong", "cut-plain", refusing_url())
    with pytest.raises(OSError, match="could not be downloaded") as error:
        fetch(mirrors, tmp_path)
    text, raw = str(error.value), server.files[LARGE]
    for url in mirrors.mirrors:
        assert url + LARGE in text
    assert "HTTP 404" in text and "refused" in text
    assert f"md5 is {md5(raw[::-1])[4:]}, expected {md5(raw)[4:]}" in text
    assert f"stopped after 5,000 of {len(raw):,} bytes" in text
    assert f"save it as {tmp_path / 'mnist' / LARGE}" in text
    assert [p.name for p in (tmp_path / "mnist").iterdir()] == [f"{LARGE}.part"]
    fetch(source("good"), tmp_path)  # goes on from there
    assert ("good", LARGE, "bytes=5000-") in server.log


def add(tar, name, raw=b"", **fields):
    member = tarfile.TarInfo(name)
    member.size = len(raw)
    for field, value in fields.items():
        setattr(member, field, value)
    tar.addfile(member, io.BytesIO(raw))


@pytest.fixture
def archived(server):
    """A function: a tar of two batches and the members given, as a source."""
    batches = {"one.bin": b"1" * 5000, "two.bin": b"2" * 7000}

    def make(more=(), leave_out=()):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w:gz") as tar:
            add(tar, "batches", type=tarfile.DIRTYPE, mode=0o755)
            for name, fields in more:
                add(tar, name, **fields)
            for name, raw in batches.items():
                if name not in leave_out:
                    add(tar, f"batches/{name}", raw)
        server.files["set.tar.gz"] = file.getvalue()
        layout = Layout(
            "batches", read_binary_batches, {name: md5(raw) for name, raw in batches.items()}
        )
        url = f"http://127.0.0.1:{server.server_port}/good/"
        return Source((layout,), (url,), {"set.tar.gz": md5(file.getvalue())})

    return make


def test_an_archive_gives_the_files_of_the_layout_and_no_other(archived, tmp_path, server):
    evil = [
        ("../evil", {"raw": b"x"}),
        ("batches/../../evil", {"raw": b"x"}),
        (str(tmp_path / "evil"), {"raw": b"x"}),
        ("batches/readme.html", {"raw": b"x"}),
        ("batches/one.bin", {"type": tarfile.SYMTYPE, "linkname": "/etc/hostname"}),
    ]
    home = tmp_path / "home"
    source = archived(evil)
    assert fetch(source, home) == home / "batches"
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")) == [
        "home",
        "home/batches",
        "home/batches/one.bin",
        "home/batches/two.bin",
    ]
    assert not (home / "batches/one.bin").is_symlink()
    data.verify("mine", home, datasets=known(source))
    server.log.clear()
    assert fetch(source, home) and server.log == []


def test_an_archive_that_lies_there_is_unpacked(archived, tmp_path, server):
    source = archived()
    (tmp_path / "set.tar.gz").write_bytes(server.files["set.tar.gz"])
    fetch(source, tmp_path)
    assert server.log == [] and (tmp_path / "batches/two.bin").read_bytes() == b"2" * 7000


def test_an_archive_with_another_file(archived, tmp_path):
    source = archived()
    digests = {**source.layouts[0].files, "two.bin": md5(b"3" * 7000)}
    source = replace(source, layouts=(replace(source.layouts[0], files=digests),))
    with pytest.raises(ValueError, match=r"two\.bin.*: md5 is \w{32}, expected \w{32}"):
        fetch(source, tmp_path)
    assert [p.name for p in (tmp_path / "batches").iterdir()] == ["one.bin"]


def test_an_archive_without_a_file(archived, tmp_path):
    with pytest.raises(ValueError, match=r"set\.tar\.gz has no batches/two\.bin"):
        fetch(archived(leave_out=["two.bin"]), tmp_path)


def test_sets_that_are_not_fetched(tmp_path):
    with pytest.raises(ValueError, match="digits comes with the package"):
        data.fetch("digits", tmp_path)
    with pytest.raises(ValueError, match=r"imagenet has no published files .*image-net\.org"):
        data.fetch("imagenet", tmp_path)
    with pytest.raises(ValueError, match=r"unknown data set 'cifar'. Did you mean 'cifar10'\?"):
        data.fetch("cifar", tmp_path)


@pytest.mark.parametrize("terminal", [False, True])
def test_the_command_line(source, tmp_path, monkeypatch, capsys, terminal):
    if terminal:
        pytest.importorskip("rich")
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setitem(DATASETS, "mnist", replace(DATASETS["mnist"], source=source("good")))
    option = ["--data-dir", str(tmp_path)]
    assert main(["data", "verify", "mnist", *option]) == 2
    assert f"padenet data fetch mnist --data-dir {tmp_path}" in capsys.readouterr().err
    assert main(["data", "fetch", "mnist", *option]) == 0
    out, err = capsys.readouterr()
    assert out == f"mnist is in {tmp_path / 'mnist'}\n"
    assert all(f"{name}.gz" in err for name in IDX_FILES)
    assert main(["data", "verify", "mnist", *option]) == 0
    assert capsys.readouterr().out == f"mnist: 4 files as published, in {tmp_path / 'mnist'}\n"
    assert len(data.load("mnist", tmp_path, verify=True).train_labels) == 40
    (tmp_path / "cifar-10-batches-py").mkdir()
    (tmp_path / "cifar-10-batches-py/test_batch").touch()
    assert main(["data", "list", *option]) == 0
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert str(tmp_path) in rows["data"]
    assert rows["mnist"].split()[1:] == ["present", str(tmp_path / "mnist")]
    assert rows["fashion-mnist"].split()[1] == "absent"
    assert "FashionMNIST/raw; padenet data fetch fashion-mnist" in rows["fashion-mnist"]
    assert rows["cifar10"].split()[1] == "incomplete" and "no data_batch_1" in rows["cifar10"]
    assert rows["digits"].split()[1] == "present" and rows["imagenet"].split()[1] == "absent"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_named(source, tmp_path):
    part = tmp_path / "mnist" / f"{IDX_FILES[0]}.gz.part"
    part.parent.mkdir()
    part.symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"gz\.part cannot be written \(No space left .*Make room"):
        fetch(source("good"), tmp_path)


def test_a_file_in_the_place_of_the_directory(source, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"mnist cannot be written \(Not a directory\).*another dir"):
        fetch(source("good"), tmp_path / "file")
