"""What a run refuses: names and places that cannot be, and directories that are not its own."""

import json
from dataclasses import replace

import pytest
import torch

from padenet.lab.records.config import Config
from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import train

TINY = Config(activation="pau", epochs=3, batch_size=256, stabilize=0.01)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (dict(net="lent"), "Did you mean 'lenet'"),
        (dict(dataset="digit"), "Did you mean 'digits'"),
        (dict(activation="pua"), "Did you mean 'pau'"),
    ],
)
def test_what_is_unknown_leaves_no_directory(tmp_path, wrong, message):
    with pytest.raises(ValueError, match=message):
        train(replace(TINY, **wrong), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_another_config_is_refused_and_nothing_changes(tmp_path):
    train(TINY, tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"lr is 0.002 there and 0.1 here") as error:
        train(replace(TINY, lr=0.1), tmp_path)
    assert "epochs" not in str(error.value)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_an_unreadable_checkpoint_is_named(tmp_path):
    assert train(TINY, tmp_path, Execution(deadline=0)) is None
    file = RunDirectory(tmp_path).checkpoint_file
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        OSError, match=r"checkpoint\.pt cannot be read: it is incomplete.*Delete it"
    ) as error:
        train(TINY, tmp_path)
    assert "checkpoint.pt" in json.loads((tmp_path / "failure.json").read_text())["reason"]
    assert str(file) in str(error.value)
    file.write_bytes(whole)
    assert train(TINY, tmp_path)["status"] == "done"
    assert not (tmp_path / "failure.json").exists()


@pytest.mark.parametrize(
    "execution, precision, message",
    [
        (Execution(device="mps"), "fp32", "'cpu' and 'cuda'"),
        (Execution(device="cpu"), "tf32", "format of GPUs"),
    ],
)
def test_executions_that_cannot_be(tmp_path, execution, precision, message):
    with pytest.raises(ValueError, match=message):
        train(replace(TINY, precision=precision), tmp_path, execution)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(tmp_path):
    with pytest.raises(ValueError, match="torch sees no GPU"):
        train(TINY, tmp_path, Execution(device="cuda"))


def test_a_checkpoint_without_its_metrics_is_refused(tmp_path):
    assert train(TINY, tmp_path, Execution(deadline=0)) is None
    RunDirectory(tmp_path).metrics_file.unlink()
    with pytest.raises(OSError, match=r"metrics.jsonl lacks epochs that checkpoint.pt has"):
        train(TINY, tmp_path)


def test_a_begun_run_without_its_config_is_refused(tmp_path):
    assert train(TINY, tmp_path, Execution(deadline=0)) is None
    (tmp_path / "config.json").unlink()
    with pytest.raises(ValueError, match=r"metrics.jsonl, checkpoint.pt and no config.json"):
        train(replace(TINY, lr=0.5), tmp_path)


@pytest.mark.parametrize("content", [{}, [1], {"epoch": 1, "net": {}, "optimizer": {}}])
def test_a_file_that_is_no_checkpoint_of_the_run(tmp_path, content):
    assert train(TINY, tmp_path, Execution(deadline=0)) is None
    torch.save(content, tmp_path / "checkpoint.pt")
    with pytest.raises(OSError, match=r"checkpoint.pt (cannot be read|does not fit the run)"):
        train(TINY, tmp_path)


def test_a_result_without_its_numbers_is_named(tmp_path):
    assert train(TINY, tmp_path, Execution(deadline=0)) is None
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(ValueError, match=r"result.json is not .*without status, reason, epochs"):
        train(TINY, tmp_path)
