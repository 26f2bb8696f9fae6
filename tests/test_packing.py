"""Merging recorded runs: each once, finished before unfinished, conflicts named; and back."""

from dataclasses import replace

import pytest
from runs import make_run

from padenet.cli import main
from padenet.experiments.config import Config
from padenet.experiments.packing import pack_runs, read_sources, unpack_runs
from padenet.experiments.store import Run, RunDirectory, pack, read_runs


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


def test_errors_of_the_command(sources, tmp_path, capsys):
    assert main(["pack", "--unpack", str(sources[0]), str(tmp_path / "x"), "more"]) == 2
    assert "was also given more" in capsys.readouterr().err
    assert main(["pack", str(sources[0]), str(tmp_path)]) == 2
    assert "is a directory. Name a file" in capsys.readouterr().err
    assert main(["pack", str(tmp_path / "none"), str(tmp_path / "x.jsonl.gz")]) == 2
    assert "none is neither" in capsys.readouterr().err


def test_why_a_run_stopped_and_what_was_pruned_travel_too(tmp_path):
    begun = make_run(status="unfinished")
    run = replace(begun, failure="OSError: full", pruning='{"fraction": 20}')
    pack([run], tmp_path / "runs.jsonl.gz")
    (back,) = read_runs(tmp_path / "runs.jsonl.gz")
    assert (back.failure, back.pruning) == (run.failure, run.pruning)
    unpack_runs(tmp_path / "runs.jsonl.gz", tmp_path / "out")
    directory = RunDirectory(tmp_path / "out" / run.config.name)
    assert directory.read().pruning == run.pruning


def test_a_name_cannot_lead_out_of_the_folder():
    with pytest.raises(ValueError, match="may hold letters"):
        Config(dataset="../../elsewhere")
