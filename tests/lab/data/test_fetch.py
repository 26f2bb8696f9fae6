"""Downloads from a server of our own, with mirrors that fail in every way a mirror can."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest
from downloads import fetch, known, md5, refusing_url
from test_data import IDX_FILES

from padenet.cli import main
from padenet.lab import data
from padenet.lab.data import DATASETS

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
