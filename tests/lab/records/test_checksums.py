"""Records on a disk that changes them: every flipped bit, lost line and edit is found."""

import json
import re

import pytest
from runs import make_run

from padenet.lab.records.directory import RunDirectory
from padenet.lab.records.packed import pack, read_runs
from padenet.lab.records.packing import unpack_runs
from padenet.lab.run.run import train


@pytest.fixture
def recorded(tmp_path):
    """A finished run as files: the directory, and what a reader must find in it."""
    run = make_run(activation="relu", epochs=2)
    pack([run], tmp_path / "packed")
    unpack_runs(tmp_path / "packed", tmp_path / "runs")
    return RunDirectory(tmp_path / "runs" / run.config.name), run


def flips(path):
    """The file with every fifth of its bits flipped in turn: at least one of each byte."""
    whole = path.read_bytes()
    for i in range(0, 8 * len(whole), 5):
        damaged = bytearray(whole)
        damaged[i // 8] ^= 1 << i % 8
        path.write_bytes(damaged)
        yield i
    path.write_bytes(whole)


@pytest.mark.parametrize("name", ["metrics.jsonl", "result.json", "config.json"])
def test_a_flipped_bit_is_found(recorded, name):
    directory, run = recorded
    file = directory.path / name
    read = {"metrics.jsonl": directory.metrics, "result.json": directory.result}
    for _ in flips(file):
        with pytest.raises(ValueError, match=re.escape(str(file))):
            read.get(name, directory.read)()
    assert directory.read() == run


def test_lines_that_are_lost_or_swapped(recorded):
    directory, _ = recorded
    whole = directory.metrics_file.read_bytes().splitlines(keepends=True)
    for lines, number in (
        (whole[1:], 1),
        ([whole[0], whole[2]], 2),
        ([whole[1], whole[0], whole[2]], 1),
        ([*whole[:2], whole[2].split(b', "crc32"')[0] + b"}"], 3),
    ):
        directory.metrics_file.write_bytes(b"".join(lines))
        with pytest.raises(ValueError, match=rf"metrics.jsonl, line {number} .*checksum"):
            directory.metrics()
    directory.metrics_file.write_bytes(b"".join(whole[:2]))  # whole lines, but too few
    with pytest.raises(ValueError, match=r"result is of epoch 2, but they end with epoch 1"):
        directory.read()


def test_records_without_checksums_are_read(recorded):
    """As they were before there were any; the next line that is written has one again."""
    directory, run = recorded
    lines = [json.dumps(line) + "\n" for line in run.metrics]
    directory.metrics_file.write_text("".join(lines))
    directory.result_file.write_text(json.dumps(run.result, indent=2) + "\n")
    directory.config_file.write_text(run.config.to_json() + "\n")
    assert directory.read() == run
    directory.write_metrics(directory.metrics())
    assert directory.metrics_file.read_text().count("crc32") == 3
    assert directory.read() == run


def test_lines_can_be_added_at_the_end(recorded):
    """The checksum of a line covers what is before it, and nothing after it."""
    directory, run = recorded
    whole = directory.metrics_file.read_bytes()
    directory.write_metrics(run.metrics[:2])
    assert whole.startswith(directory.metrics_file.read_bytes())


def test_an_edited_config_is_not_trained(recorded):
    directory, run = recorded
    text = directory.config_file.read_text()
    directory.config_file.write_text(text.replace('"lr": 0.002', '"lr": 0.003'))
    with pytest.raises(
        ValueError, match=r"config.json .*it was damaged or edited.*Put back a copy"
    ):
        train(run.config, directory.path)
    with pytest.raises(ValueError, match=r"config.json .*it was damaged or edited"):
        read_runs(directory.path)
