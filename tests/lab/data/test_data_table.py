"""A data set of the user is one entry of the table, and then has a name in runs like the rest."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from padenet.cli import main
from padenet.lab import data
from padenet.lab.data import DATASETS, DatasetSpec, in_memory
from padenet.lab.records.config import Config
from padenet.lab.report import write_report
from padenet.lab.run.run import load_once, train
from padenet.lab.sweep.recipes import PROTOCOLS, paper

MODULE = """
import numpy as np
from padenet.lab.data import DATASETS, DatasetSpec, in_memory

def halves(data_dir):
    images = np.zeros((64, 1, 28, 28), np.uint8)
    labels = np.arange(64) % 2
    images[labels == 0, :, :14] = 255
    images[labels == 1, :, :, :14] = 255
    return in_memory((images, labels), (images[:16], labels[:16]), ("above", "left"))

DATASETS["halves"] = DatasetSpec(title="Halves", protocol="digits", load=halves)
"""
RUNS = """
from padenet.lab.records.config import Config

def runs():
    small = dict(dataset="halves", net="mlp", activation="relu", epochs=1, batch_size=16)
    return [Config(seed=s, **small) for s in (0, 1)]
"""


@pytest.fixture
def halves(tmp_path, monkeypatch):
    """The module that registers the set, which is forgotten afterwards."""
    path = tmp_path / "my_sets.py"
    path.write_text(MODULE)
    monkeypatch.delitem(DATASETS, "halves", raising=False)
    before = dict(DATASETS)
    yield path
    DATASETS.clear()
    DATASETS.update(before)
    load_once.cache_clear()


def test_a_set_of_ones_own(halves, tmp_path, capsys):
    exec(MODULE)
    found = data.load("halves")
    assert found.name == "halves" and found.classes == ("above", "left")
    assert found.train_images.shape == (64, 1, 32, 32) and found.test_labels.dtype == torch.int64
    assert found.mean == pytest.approx((0.5,)) and not found.train_images[:, :, :2].any()
    assert data.check_there("halves") is None
    with pytest.raises(ValueError, match="halves has no published digests"):
        data.load("halves", verify=True)
    with pytest.raises(ValueError, match="halves is made by a function: there is nothing to"):
        data.fetch("halves")
    assert main(["data", "list"]) == 0
    assert "halves         present     made by a function" in capsys.readouterr().out
    assert paper(Config(dataset="halves")).epochs == 20  # the protocol of its entry
    config = Config(dataset="halves", net="mlp", activation="relu", epochs=2, batch_size=16)
    assert train(config, tmp_path / "runs" / config.name)["test_accuracy"] == 100
    write_report(tmp_path / "runs", tmp_path / "report")
    assert "## Halves: test accuracy" in (tmp_path / "report/report.md").read_text()


@pytest.mark.parametrize("module", ["my_sets", "my_sets.py"])
def test_the_command_line_imports_the_module_that_registers_it(halves, tmp_path, module):
    """In a process of its own, so that nothing is registered by accident; --jobs 2 makes more."""
    (tmp_path / "runs.py").write_text(RUNS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(tmp_path)])}
    command = [sys.executable, "-m", "padenet", "sweep", "runs.py", "--out", "out"]
    options = ["--device", "cpu", "--jobs", "2", "--threads", "1"]

    def sweep(*more):
        return subprocess.run(
            [*command, *options, *more], cwd=tmp_path, env=env, capture_output=True, text=True
        )

    refused = sweep()
    assert refused.returncode == 2 and "unknown data set 'halves'" in refused.stderr
    done = sweep("--import", module)
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.endswith("2 done\n")


def test_a_module_that_cannot_be_imported(tmp_path, capsys):
    path = tmp_path / "broken.py"
    path.write_text("\nraise KeyError('oops')\n")
    for name, said in [
        (str(path), f"{path}, line 2: KeyError: 'oops'"),
        (str(tmp_path / "none.py"), "none.py is no file. Name a Python file or a module."),
        ("no_such_module", "no_such_module: ModuleNotFoundError"),
    ]:
        assert main(["train", "--out", str(tmp_path / "out"), "--import", name]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "images, labels, said",
    [
        (np.zeros((2, 1, 8, 8)), [0, 1], r"train: images are float64 of shape \(2, 1, 8, 8\)"),
        (np.zeros((2, 8, 8), np.uint8), [0, 1], r"not uint8 \(N, C, H, W\)"),
        (np.zeros((2, 1, 8, 8), np.uint8), [0], r"2 images and labels of shape \(1,\)"),
        (np.zeros((2, 1, 8, 8), np.uint8), [0, 2], "labels from 0 to 2 for 2 classes"),
        (np.zeros((2, 1, 8, 8), np.uint8), [-1, 0], "labels from -1 to 0 for 2 classes"),
        (np.zeros((2, 1, 8, 8), np.uint8), [0.0, 1.0], "labels of float64, not whole numbers"),
        (np.zeros((0, 1, 8, 8), np.uint8), [], "0 labels"),
    ],
)
def test_arrays_that_are_no_data_set(images, labels, said):
    with pytest.raises(ValueError, match=said):
        in_memory((images, np.array(labels)), (images, np.array(labels)), ("a", "b"))


def test_every_entry_names_a_protocol_and_has_files_or_a_loader():
    assert {spec.protocol for spec in DATASETS.values()} <= PROTOCOLS.keys()
    with pytest.raises(ValueError, match="data set 'Both' needs either source or load"):
        DatasetSpec(title="Both")


def test_read_only_arrays_of_the_full_size_are_taken():
    images, labels = np.zeros((2, 1, 32, 32), np.uint8), np.array([0, 1])
    images.flags.writeable = False
    found = in_memory((images, labels), (images, labels), ("a", "b"))
    found.train_images[0] = 1
    assert not images.any()
