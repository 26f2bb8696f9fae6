"""Merging recorded runs: each once, finished before unfinished, conflicts named; and back."""

import gzip
import json
from dataclasses import replace

import pytest
from runs import make_run

from padenet.cli import main
from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.files.lock import InUse
from padenet.lab.records.packed import pack, read_runs
from padenet.lab.records.packing import pack_runs, read_sources, unpack_runs
from padenet.lab.records.run import Run


@pytest.fixture
def sources(tmp_path):
    """Two machines: seed 1 was begun on the first and finished on the second."""
    begun, whole = make_run(seed=1, epochs=3, status="unfinished"), make_run(seed=1, epochs=3)
    pack([make_run(seed=0, epochs=3), begun], tmp_path / "first.jsonl.gz")
    pack(
        [whole, make_run(seed=2, epochs=3), make_run(seed=0, epochs=3)],
        tmp_path / "second.jsonl.gz",
    )
    return tmp_path / "first.jsonl.gz", tmp_path / "second.jsonl.gz"


@pytest.mark.parametrize("order", [1, -1])
def test_merge_keeps_each_run_once(sources, order):
    runs = read_sources(sources[::order])
    assert [r.config.seed for r in runs] == [0, 1, 2]
    assert [r.result["status"] for r in runs] == ["done"] * 3


@pytest.mark.parametrize("order", [1, -1])
def test_finished_before_longer(tmp_path, order):
    pack([make_run(epochs=3, status="unfinished", stop=3)], tmp_path / "begun")
    pack([make_run(epochs=3, status="diverged", stop=1)], tmp_path / "ended")
    (run,) = read_sources([tmp_path / "begun", tmp_path / "ended"][::order])
    assert run.result["status"] == "diverged"


def test_the_longer_of_two_unfinished(tmp_path):
    for name, stop in (("a", 1), ("b", 2), ("c", 0)):
        pack([make_run(epochs=3, status="unfinished", stop=stop)], tmp_path / name)
    (run,) = read_sources([tmp_path / name for name in "abc"])
    assert len(run.metrics) == 3


def test_two_finished_records_that_differ_are_refused(tmp_path):
    pack([make_run(accuracy=90)], tmp_path / "a")
    pack([make_run(accuracy=91)], tmp_path / "b")
    with pytest.raises(ValueError, match=r"fashion-mnist-lenet-pau-s0 .* .*/a and .*/b"):
        pack_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_two_runs_of_one_directory_are_told_apart(tmp_path):
    for name, epochs in (("demo/run", 3), ("run", 4)):
        RunDirectory(tmp_path / name).claim(make_run(epochs=epochs).config)
    with pytest.raises(ValueError, match=r"in \S*/demo/run and \S*/run\."):
        read_sources([tmp_path])


def test_two_configs_under_one_name_are_refused(tmp_path):
    pack([make_run(epochs=3)], tmp_path / "a")
    pack([make_run(epochs=4)], tmp_path / "b")
    with pytest.raises(ValueError, match=r"two configs, in .*/a and .*/b.*label"):
        read_sources([tmp_path / "a", tmp_path / "b"])


def test_command_packs_merges_and_unpacks(sources, tmp_path, capsys):
    first, second = map(str, sources)
    packed, folder = str(tmp_path / "new" / "all.jsonl.gz"), str(tmp_path / "runs")
    assert main(["pack", first, packed, second]) == 0
    assert "3 runs: 3 done" in capsys.readouterr().out
    assert main(["pack", "--unpack", packed, folder]) == 0
    assert read_runs(folder) == read_runs(packed)
    names = [f"fashion-mnist-lenet-pau-s{i}" for i in range(3)]
    found = sorted(
        str(p.relative_to(folder)) for p in (tmp_path / "runs").rglob("*") if p.is_file()
    )
    files = ["config.json", "metrics.jsonl", "result.json"]
    assert found == [f"{name}/{file}" for name in names for file in files]
    again = str(tmp_path / "again.jsonl.gz")
    assert main(["pack", folder, again]) == 0
    assert (tmp_path / "again.jsonl.gz").read_bytes() == (
        tmp_path / "new/all.jsonl.gz"
    ).read_bytes()


def test_packing_into_a_file_keeps_what_it_holds(sources):
    first, second = sources
    pack_runs([second], first)
    assert [r.config.seed for r in read_runs(first)] == [0, 1, 2]


def test_unpacking_over_runs(tmp_path):
    """A finished run replaces its beginning; one that was finished there stays as it is."""
    here = RunDirectory(tmp_path / "runs" / make_run().config.name)
    begun, whole = make_run(status="unfinished"), make_run()
    here.claim(begun.config)
    here.write_metrics(begun.metrics)
    pack([whole], tmp_path / "whole.jsonl.gz")
    pack([begun], tmp_path / "begun.jsonl.gz")
    for name in ("whole", "begun"):
        unpack_runs(tmp_path / f"{name}.jsonl.gz", tmp_path / "runs")
        assert here.read() == Run(whole.config, whole.metrics, whole.result)


def test_unpacking_over_a_run_that_can_go_on(tmp_path):
    """Its own beginning stays, however long the other; a finished record replaces all of it."""
    begun, longer = (make_run(status="unfinished", stop=stop) for stop in (1, 5))
    here = RunDirectory(tmp_path / "runs" / begun.config.name)
    here.claim(begun.config)
    here.write_metrics(begun.metrics)
    here.write_checkpoint({"epoch": 1})
    here.write_failure("OSError: full")
    pack([longer], tmp_path / "longer.jsonl.gz")
    unpack_runs(tmp_path / "longer.jsonl.gz", tmp_path / "runs")
    assert here.read() == replace(begun, failure="OSError: full")
    assert here.checkpoint_file.exists()
    pack([make_run()], tmp_path / "whole.jsonl.gz")
    with here.locked(), pytest.raises(InUse, match=r"-pau-s0 is in use"):
        unpack_runs(tmp_path / "whole.jsonl.gz", tmp_path / "runs")
    assert here.checkpoint_file.exists()
    unpack_runs(tmp_path / "whole.jsonl.gz", tmp_path / "runs")
    assert here.read() == make_run()
    assert not here.checkpoint_file.exists() and not here.failure_file.exists()


def test_errors_of_the_command(sources, tmp_path, capsys):
    assert main(["pack", "--unpack", str(sources[0]), str(tmp_path / "x"), "more"]) == 2
    assert "was also given more" in capsys.readouterr().err
    assert main(["pack", str(sources[0]), str(tmp_path)]) == 2
    assert "is a directory. Name a file" in capsys.readouterr().err
    assert main(["pack", str(tmp_path / "none"), str(tmp_path / "x.jsonl.gz")]) == 2
    assert "none is not there. Name" in capsys.readouterr().err


@pytest.mark.parametrize("file", ["metrics.jsonl", "result.json", "checkpoint.pt"])
@pytest.mark.parametrize("command", ["pack", "report"])
def test_no_run_is_hidden_for_want_of_its_config(tmp_path, capsys, command, file):
    runs, out = tmp_path / "runs", tmp_path / "out"
    pack([make_run(seed=0), make_run(seed=1)], tmp_path / "packed")
    unpack_runs(tmp_path / "packed", runs)
    (runs / "empty").mkdir()
    (runs / "other").mkdir()
    (runs / "other" / "notes.json").write_text("{}")
    assert len(read_sources([runs])) == 2
    nameless = runs / "deep" / "er"
    nameless.mkdir(parents=True)
    (nameless / file).write_text("")
    assert main([command, str(runs), *(["--out"] if command == "report" else []), str(out)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{nameless} has {file} and no config.json" in line and "Put back a copy" in line
    assert not out.exists()
    with pytest.raises(ValueError, match=rf"er has {file} and no config\.json"):
        read_sources([nameless])


def test_unpacking_beside_a_run_without_its_config_writes_nothing(tmp_path):
    runs = [make_run(seed=0), make_run(seed=1)]
    pack(runs, tmp_path / "packed")
    nameless = tmp_path / "runs" / runs[1].config.name
    nameless.mkdir(parents=True)
    (nameless / "result.json").write_text("{}")
    with pytest.raises(ValueError, match=r"-s1 has result\.json and no config\.json"):
        unpack_runs(tmp_path / "packed", tmp_path / "runs")
    assert [p.name for p in (tmp_path / "runs").rglob("*.json")] == ["result.json"]


@pytest.mark.parametrize("options", [[], ["--unpack"]])
@pytest.mark.parametrize("name", ["file/x", "file/x/y"])
def test_out_below_a_file_is_named(sources, tmp_path, capsys, name, options):
    (tmp_path / "file").write_text("mine")
    assert main(["pack", *options, str(sources[0]), str(tmp_path / name)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    place = (tmp_path / name) if options else (tmp_path / name).parent  # what was to be made
    assert line.startswith(f"padenet: {place}")
    assert "cannot be written (" in line and "choose another directory" in line
    assert (tmp_path / "file").read_text() == "mine"


def test_why_a_run_stopped_and_what_was_pruned_travel_too(tmp_path, capsys):
    begun = make_run(status="unfinished")
    run = replace(begun, failure="OSError: full", pruning='{"fraction": 20}')
    pack([run], tmp_path / "runs.jsonl.gz")
    (back,) = read_runs(tmp_path / "runs.jsonl.gz")
    assert (back.failure, back.pruning) == (run.failure, run.pruning)
    unpack_runs(tmp_path / "runs.jsonl.gz", tmp_path / "out")
    assert RunDirectory(tmp_path / "out" / run.config.name).read() == run
    assert main(["pack", str(tmp_path / "out"), str(tmp_path / "again.jsonl.gz")]) == 0
    assert "1 run: 1 failed" in capsys.readouterr().out


RESULT = {"status": "done", "reason": "", "epochs": 1, "seconds": 1.0}
RESULT |= {"test_accuracy": 90.0, "best_accuracy": 90.0}


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"metrics": 5}, "metrics is a int, not a list"),
        ({"metrics": [{}]}, "without epoch, test_accuracy, seconds"),
        ({"metrics": ["x"]}, "a str, not an object"),
        ({"result": {}}, "without status, reason, epochs"),
        ({"result": RESULT | {"status": "great"}}, "status is 'great', not done"),
        ({"result": RESULT | {"test_accuracy": "high"}}, "test_accuracy is 'high', not a perc"),
        ({"result": RESULT | {"test_accuracy": 999}}, "test_accuracy is 999, not a percentage"),
        ({"config": {"name": "x"}}, "unknown field of a run 'name'"),
        ({"config": None}, "a NoneType, not an object"),
    ],
)
def test_a_line_that_is_no_run_is_named(tmp_path, change, reason):
    good = {"config": {}, "metrics": [], "result": None}
    lines = [json.dumps(record) for record in (good, good | change)]
    (tmp_path / "runs.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    with pytest.raises(
        ValueError, match=rf"runs\.gz, line 2 is not .* \({reason}.*Put back a copy"
    ):
        read_runs(tmp_path / "runs.gz")


def test_files_that_are_no_records_are_named(tmp_path):
    (tmp_path / "empty.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"empty\.gz holds no runs: the file is empty\."):
        read_runs(tmp_path / "empty.gz")
    run = make_run(status="unfinished")
    directory = RunDirectory(tmp_path / "runs" / "one")
    directory.claim(run.config)
    directory.failure_file.write_text("{}")
    with pytest.raises(ValueError, match=r"failure\.json is not .* \(without reason\)"):
        read_runs(tmp_path / "runs")
    directory.failure_file.unlink()
    directory.metrics_file.write_text('{"epoch": 0}\n')
    with pytest.raises(
        ValueError, match=r"metrics\.jsonl, line 1 .*without test_accuracy, seconds"
    ):
        read_runs(tmp_path / "runs")
    directory.config_file.write_text('{"name": "another tool"}')
    with pytest.raises(ValueError, match=r"one/config\.json is not the record of a run .*'name'"):
        read_runs(tmp_path / "runs")


def test_a_name_cannot_lead_out_of_the_folder():
    with pytest.raises(ValueError, match="may hold letters"):
        Config(dataset="../../elsewhere")
