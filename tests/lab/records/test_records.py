"""Records that are valid JSON and no records: one line that names the file, never a traceback."""

import gzip
import json
import math
from copy import deepcopy

import pytest
from runs import make_run

from padenet.cli import main
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.packed import pack, read_runs
from padenet.lab.records.packing import unpack_runs
from padenet.lab.report.cells import collect
from padenet.lab.report.facts import facts
from padenet.lab.report.page import embed
from padenet.lab.report.page.data import page_data
from padenet.lab.report.pruned import pruning_curves
from padenet.lab.report.tables.comparisons import comparison_tables
from padenet.lab.report.tables.formats import to_csv, to_html, to_latex, to_markdown
from padenet.lab.report.tables.lost import lost_tables
from padenet.lab.report.tables.pruning import pruning_table
from padenet.lab.report.tables.results import results_tables
from padenet.lab.report.tables.settings import settings_table

NO_RECORDS = [None, [], {}, "x", -1, math.inf, math.nan, True, [[]], [1, [2]], 10**30]
COSTS = {"fraction": 20.0, "parameters": 5, "whole_milliseconds": 1.0}


@pytest.fixture
def recorded(tmp_path):
    run = make_run(epochs=2, net="mine")
    pack([run], tmp_path / "packed")
    unpack_runs(tmp_path / "packed", tmp_path / "runs")
    return RunDirectory(tmp_path / "runs" / run.config.name)


def line_without(index, name):
    def change(lines):
        del lines[index]["units"][name]

    return change


@pytest.mark.parametrize(
    "file, change, said",
    [
        ("result.json", lambda r: r.update(machine="big"), "machine is 'big', not an object"),
        ("result.json", lambda r: r.pop("best_accuracy"), "without best_accuracy"),
        ("result.json", lambda r: r.update(seconds="1"), "seconds is '1', not a number"),
        ("result.json", lambda r: r.update(reason=5), "reason is 5, not a text"),
        ("result.json", lambda r: r.update(pruning=[1]), "pruning is '[1]', not an object"),
        ("result.json", lambda r: r.update(epochs=9), "the result is of epoch 9, but they end"),
        ("failure.json", lambda r: r.update(reason=["x"]), "reason is ['x'], not a text"),
        ("pruning.json", lambda r: r.update(fraction="x"), "not an object with a number fraction"),
        ("metrics.jsonl", lambda r: r[1].update(epoch="1"), "epoch is '1', not a whole number"),
        ("metrics.jsonl", lambda r: r[1].update(units=[5]), "units is a list, not an object"),
        ("metrics.jsonl", line_without(1, "features.1"), "the units of epoch 1 are others"),
        ("metrics.jsonl", lambda r: r.clear(), "the result is of epoch 2, but there are none"),
        ("metrics.jsonl", lambda r: r.pop(1), "epoch 0 is followed by epoch 2"),
    ],
)
def test_report_names_the_file(recorded, tmp_path, capsys, file, change, said):
    path = recorded.path / file
    text = path.read_text() if path.exists() else "{}"
    lines = [json.loads(line) for line in text.splitlines()] if file[-1] == "l" else None
    record = json.loads(text) if lines is None else lines
    change(record)
    for part in lines if lines is not None else [record]:
        part.pop("crc32", None)
    path.write_text("".join(json.dumps(part) + "\n" for part in (lines or [record]) if part))
    assert main(["report", str(tmp_path / "runs"), "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(recorded.path) in line and said in line
    assert "ut back a copy" in line and not (tmp_path / "out").exists()


def test_a_finished_run_with_a_broken_result(tmp_path, capsys):
    train = ["train", "--activation", "relu", "--epochs", "1", "--quiet", "--out", str(tmp_path)]
    assert main(train) == 0
    (file,) = tmp_path.glob("*/result.json")
    for key in ("best_accuracy", "seconds", "reason"):
        whole = file.read_bytes()
        file.write_bytes(whole.replace(f'"{key}"'.encode(), b'"x"'))
        assert main(train) == 2
        assert f"{file} is not what it should be" in capsys.readouterr().err
        broken = {k: v for k, v in json.loads(whole).items() if k not in (key, "crc32")}
        file.write_text(json.dumps(broken))
        assert main(train) == 2
        assert f"{file} is not what it should be (without {key})" in capsys.readouterr().err
        file.write_bytes(whole)


def places(value, place=()):
    """Every place in nested lists and objects; of a list the first two."""
    yield place
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*place, key))
    elif isinstance(value, list):
        for i in range(min(len(value), 2)):
            yield from places(value[i], (*place, i))


def test_whatever_stands_anywhere_is_refused_or_reported(tmp_path):
    """Each value of two runs, replaced by what it should not be."""
    runs = [make_run(net="mine", epochs=1), make_run("mine", "mine", "relu", status="unfinished")]
    runs[0].result["pruning"] = dict(COSTS)
    pack(runs, tmp_path / "good")
    text = gzip.decompress((tmp_path / "good").read_bytes())
    records = [json.loads(line) for line in text.splitlines()]
    records[1] |= {"failure": "x", "pruning": json.dumps(COSTS)}
    refused = 0
    for place in [p for p in places(records) if len(p) > 1]:
        for value in NO_RECORDS:
            changed = deepcopy(records)
            inner = changed
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = value
            lines = "\n".join(map(json.dumps, changed))
            (tmp_path / "bad").write_bytes(gzip.compress(lines.encode(), 1))
            try:
                runs = read_runs(tmp_path / "bad")
            except ValueError as error:
                refused += f"{tmp_path / 'bad'}, line " in str(error)
            else:
                refused += 0
                report(runs)


def report(runs):
    """All but the figures."""
    cells, pruned = collect(runs), pruning_curves(runs)
    tables = [*results_tables(cells), *comparison_tables(cells), *lost_tables(cells)]
    tables += [settings_table(cells), *([pruning_table(pruned)] if pruned else [])]
    for table in tables:
        for write in (to_markdown, to_latex, to_csv, to_html):
            write(table)
    facts(runs)
    embed(page_data(cells, tables))


def test_brackets_without_end(recorded):
    """Python's reader of JSON has a limit of its own."""
    recorded.result_file.write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"result.json is not what it should be"):
        recorded.read()


@pytest.mark.parametrize(
    "line, said",
    [
        (b"0" * 2**20, r"bomb.gz is not .*over 17 MB, more than packed runs hold.*Put back a copy"),
        (None, r"bomb.gz is not .*over 34 MB, more than packed runs hold.*Put back a copy"),
        (b"\n" * 2**20, r"bomb.gz, line 1 is not what it should be"),
    ],
)
def test_a_file_that_unpacks_to_far_too_much(tmp_path, monkeypatch, line, said):
    """It is left as soon as it is known for one."""
    monkeypatch.setattr("padenet.lab.records.packed.LONGEST", 2**24)
    monkeypatch.setattr("padenet.lab.records.packed.ALWAYS", 2**25)
    record = json.dumps({"config": {}, "metrics": [], "result": None, "x": "0" * 2**20}).encode()
    with gzip.open(tmp_path / "bomb.gz", "wb", 9) as file:
        for _ in range(60):
            file.write(record + b"\n" if line is None else line)
    with pytest.raises(
        ValueError, match=r"bomb.gz.* is not (what it should|a whole file of packed)"
    ):
        read_runs(tmp_path / "bomb.gz")


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: whole[:-9],
        lambda whole: b"1,2\n",
        lambda whole: whole[:40] + whole[80:],
        lambda whole: whole[:-8] + bytes(8),
    ],
    ids=["cut", "no gzip", "a hole", "another checksum"],
)
def test_a_packed_file_that_is_damaged(tmp_path, change):
    pack([make_run(epochs=2)], tmp_path / "runs.gz")
    (tmp_path / "runs.gz").write_bytes(change((tmp_path / "runs.gz").read_bytes()))
    with pytest.raises(ValueError, match=r"runs.gz(, line 1)? is not .*Put back a copy"):
        read_runs(tmp_path / "runs.gz")


def test_a_long_run_is_no_bomb(tmp_path):
    runs = [make_run(net="resnet101", epochs=100, groups=2)]
    pack(runs, tmp_path / "runs.gz")
    assert read_runs(tmp_path / "runs.gz") == runs
