"""A report into a directory that holds one: all of the old goes, all of the user's stays."""

import os

import pytest
from runs import lost, make_run, seeds

from padenet.cli import main
from padenet.lab import report
from padenet.lab.records.packed import pack
from padenet.lab.report import publish, write_report


@pytest.fixture
def write(tmp_path):
    """Writes a report on these runs, into ``report`` unless told otherwise."""

    def made(runs, name="report"):
        pack(runs, tmp_path / "runs.jsonl.gz")
        return write_report(tmp_path / "runs.jsonl.gz", tmp_path / name)

    return made


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def finished():
    return seeds("relu", [90, 91])


def begun():
    return [*seeds("relu", [90]), lost("relu", 1, "unfinished"), *seeds("gelu", [90], net="mine")]


def test_the_new_report_is_all_that_is_there(write, tmp_path):
    out = tmp_path / "report"
    old = {p.relative_to(out).as_posix() for p in write(begun())}
    gone = {f"tables/lost.{e}" for e in ("md", "tex", "csv")}
    gone |= {f"figures/curves-fashion-mnist-mine.{e}" for e in ("png", "pdf")}
    assert gone <= old
    new = {p.relative_to(out).as_posix() for p in write(finished())}
    write(finished(), "fresh")
    assert contents(out) == contents(tmp_path / "fresh")
    assert new == old - gone
    assert (out / "files.txt").read_text().splitlines() == sorted(new)


def test_files_of_the_user_stay(write, tmp_path):
    """Even those that have a name as reports make them."""
    out = tmp_path / "report"
    mine = ["notes.md", "figures/pruning.pdf", "tables/lost.xlsx", "tables/results-mine.tex"]
    for name in mine:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(name)
    for runs in (begun(), finished()):
        write(runs)
        assert {name: (out / name).read_text() for name in mine} == {name: name for name in mine}
    write(finished(), "fresh")
    assert set(contents(out)) == {*contents(tmp_path / "fresh"), *mine}


def test_only_tables_and_figures_of_the_directory_are_deleted(write, tmp_path):
    write(finished())
    names = ["other.csv", "report/tables/deep/x.csv", "report/config.json", "report/tables/x.py"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    lines = ["../other.csv", "tables/../../other.csv", str(tmp_path / "other.csv"), "config.json"]
    lines += ["tables/deep/x.csv", "tables/x.py", "tables", "", "tables/gone.csv"]
    (tmp_path / "report/files.txt").write_text("\n".join(lines))
    write(finished())
    assert all((tmp_path / name).exists() for name in names)


def test_what_fails_leaves_the_old_report(write, tmp_path, monkeypatch):
    write(begun())
    before = contents(tmp_path / "report")

    def fail(*_):
        raise RuntimeError("in the last step")

    monkeypatch.setattr(report, "make_page", fail)
    with pytest.raises(RuntimeError, match="last step"):
        write(finished())
    assert contents(tmp_path / "report") == before


@pytest.mark.parametrize("moved", [0, 1, 5])
def test_killed_while_the_files_move(write, tmp_path, monkeypatch, moved):
    """Every file is whole, and the next report knows them all."""
    out = tmp_path / "report"
    write(finished())
    old = contents(out)
    write(begun(), "other")
    other = contents(tmp_path / "other")
    left, replace = [moved], os.replace

    def die(source, target):
        if publish.PREFIX in str(source) and publish.PREFIX not in str(target):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", die)
        with pytest.raises(KeyboardInterrupt):
            write(begun())
    found = {name: text for name, text in contents(out).items() if name != "files.txt"}
    assert all(text in (old.get(name), other.get(name)) for name, text in found.items())
    (out / ".report-killed.part").mkdir()  # as by a signal that nothing can catch
    write(finished())
    assert contents(out) == old
    assert not (out / ".report-killed.part").exists()


@pytest.mark.parametrize("name", ["file", "file/x", "file/x/y"])
def test_out_that_cannot_be_a_directory(tmp_path, capsys, name):
    (tmp_path / "file").write_text("mine")
    pack([make_run(epochs=1)], tmp_path / "runs.jsonl.gz")
    out = tmp_path / name
    assert main(["report", str(tmp_path / "runs.jsonl.gz"), "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"padenet: {out} cannot be written (")
    assert "choose another directory" in line and "Errno" not in line
    assert (tmp_path / "file").read_text() == "mine"


def test_a_file_in_the_place_of_a_folder_is_named(write, tmp_path):
    out = tmp_path / "report"
    out.mkdir()
    (out / "figures").write_text("mine")
    with pytest.raises(OSError, match=r"report/figures cannot be written \(File exists\)"):
        write(finished())
    assert contents(out) == {"figures": b"mine"}
