"""Archives that are downloaded: what is unpacked, and what is refused."""

import io
import tarfile
from dataclasses import replace

import pytest
from downloads import fetch, known, md5

from padenet.lab import data
from padenet.lab.data import Layout, Source
from padenet.lab.data.readers.cifar import read_binary_batches


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
