"""Downloads from the official mirrors: resumed where they stopped, checked, then renamed."""

import os
import tarfile
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from padenet.lab.data.local import CHUNK, PathLike, data_home, difference, find
from padenet.lab.data.lookup import Datasets, find_source
from padenet.lab.data.sources import Layout
from padenet.lab.data.table import DATASETS
from padenet.lab.records.files.disk import writing

TIMEOUT = 30.0  # seconds without a byte
TRIES = 5

OnBytes = Callable[[str, int, int | None], None]  # file, bytes done, bytes in all if known


class Broken(Exception):
    """A transfer failed on the side of the network; what came is in the ``.part`` file."""


def _quiet(file: str, done: int, total: int | None) -> None:
    pass


def fetch(
    name: str,
    data_dir: PathLike | None = None,
    *,
    datasets: Datasets = DATASETS,
    report: OnBytes = _quiet,
) -> Path:
    """Download what is missing of a data set, and return its folder.

    Files that are there and have the published content stay; others are replaced. A file that
    stopped half-way is resumed, here and at the next call.

    Args:
        name: A name in ``datasets``.
        data_dir: As for ``load``.
        datasets: The table of data sets.
        report: Called with (file, bytes done, bytes in all or None) as bytes arrive.
    """
    source, home = find_source(name, datasets), data_home(data_dir)
    copy = find(source, home)
    if copy and not copy.missing:
        files = copy.files.items()
        if not any(difference(path, copy.layout.files[file]) for file, path in files):
            return copy.folder
    layout = source.layouts[0]
    folder = home / layout.folder
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for file, digest in source.downloads.items():
        urls = [mirror + file for mirror in source.mirrors]
        if file.endswith(".tar.gz"):
            archive = home / file
            download(urls, archive, digest, report)
            unpack(archive, folder, layout)
            archive.unlink()
        elif not _has(folder / file, layout):
            download(urls, folder / file, digest, report)
            # a plain copy would be read in its place, and it was missing or wrong
            (folder / file.removesuffix(".gz")).unlink(missing_ok=True)
    return folder


def _has(path: Path, layout: Layout) -> bool:
    """Whether the published content is there, compressed or plain."""
    name = path.name.removesuffix(".gz")
    present = next((p for p in (path.with_name(name), path) if p.is_file()), None)
    return present is not None and difference(present, layout.files[name]) is None


def download(urls: list[str], target: Path, digest: str, report: OnBytes = _quiet) -> None:
    """The file from the first url that has it with this digest, renamed when it is complete."""
    if target.is_file() and difference(target, digest, decompress=False) is None:
        return
    part = target.with_name(f"{target.name}.part")
    failures: dict[str, str] = {}
    for url in urls:
        for _ in range(TRIES):
            before = _size(part)
            try:
                transfer(url, part, report)
            except Broken as error:
                failures[url] = str(error)
                if _size(part) == before:  # nothing came: the next mirror
                    break
                continue
            wrong = difference(part, digest, decompress=False)
            if wrong is None:
                os.replace(part, target)
                return
            part.unlink()
            failures[url] = wrong.removeprefix(f"{part}: ")
            if before == 0:  # else the old beginning may be to blame
                break
    reasons = "; ".join(f"{url}: {reason}" for url, reason in failures.items())
    raise OSError(
        f"{target.name} could not be downloaded. {reasons}. Try again later, or get the file "
        f"elsewhere and save it as {target}."
    )


def transfer(url: str, part: Path, report: OnBytes) -> None:
    """Append to ``part`` what it lacks, or write all of it where the server has no ranges."""
    have = _size(part)
    headers = {"User-Agent": "padenet", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        with error:
            if error.code == 416 and have:  # nothing lies beyond: complete, or not this file
                if error.headers.get("Content-Range") != f"bytes */{have}":
                    part.unlink()
                    transfer(url, part, report)
                return
        raise Broken(f"HTTP {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise Broken(str(getattr(error, "reason", error))) from error
    with response:
        resumed = response.status == 206
        if resumed and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink(missing_ok=True)
            raise Broken("the server sent another range than was asked for")
        done = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        with writing(part), part.open("ab" if resumed else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                done += len(chunk)
                report(part.name.removesuffix(".part"), done, total)
    if total is not None and done < total:
        raise Broken(f"stopped after {done:,} of {total:,} bytes")


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read1(CHUNK)
    except (OSError, HTTPException) as error:
        raise Broken(str(error) or repr(error)) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def unpack(archive: Path, folder: Path, layout: Layout) -> None:
    """The layout's files from the archive, and no other: it names no path on this machine."""
    left = {f"{layout.folder}/{file}": file for file in layout.files}
    try:
        with tarfile.open(archive, "r|gz") as tar:
            for member in tar:
                stream = tar.extractfile(member) if member.isfile() else None
                file = left.pop(member.name.removeprefix("./"), None) if stream else None
                if file is None or stream is None:
                    continue
                part = folder / f"{file}.part"
                with writing(part), part.open("wb") as out:
                    while chunk := stream.read(CHUNK):
                        out.write(chunk)
                if wrong := difference(part, layout.files[file]):
                    part.unlink()
                    raise ValueError(f"{archive}: {file}: {wrong}.")
                os.replace(part, folder / file)
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(f"{archive}: not a readable tar.gz ({error}). Delete it.") from error
    if left:
        raise ValueError(f"{archive} has no {', '.join(left)}. Delete it and fetch again.")
