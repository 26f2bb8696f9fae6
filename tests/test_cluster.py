"""Runs as tasks of a Ray cluster on this machine."""

import os
import signal
import threading
from pathlib import Path

import pytest
from small_runs import numbers_of, small, trainers, wait_for

from padenet.experiments.cluster import choose_device, run_on_ray
from padenet.experiments.run import Place, train


def test_choose_device():
    assert choose_device("auto", {"CPU": 4}) == "cpu"
    assert choose_device("auto", {"CPU": 4, "GPU": 2}) == "cuda"
    assert choose_device("cpu", {"GPU": 2}) == "cpu"
    with pytest.raises(ValueError, match=r"device='cuda', but the Ray cluster has no GPU"):
        choose_device("cuda", {"CPU": 4})
    with pytest.raises(ValueError, match=r"device='cuda:1', but Ray chooses the GPU"):
        choose_device("cuda:1", {"GPU": 2})


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path):
    pytest.importorskip("ray")
    cut, failing, other = small("rpau", epochs=6, batch_size=16), small(dataset="mnist"), small()
    kills = []

    def kill():
        wait_for((tmp_path / cut.name / "checkpoint.pt").exists)
        [pid] = trainers(tmp_path / cut.name)
        os.kill(pid, signal.SIGKILL)
        kills.append(pid)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    outcomes = []
    place = Place(device="cpu", data_dir=str(tmp_path / "nowhere"))
    run_on_ray([cut, failing, other], tmp_path, place, 2, "local", report=outcomes.append)
    killer.join()
    assert len(kills) == 1
    states = {o.config.name: o.state for o in outcomes}
    assert states == {cut.name: "done", failing.name: "failed", other.name: "done"}
    for config in (cut, other):
        train(config, tmp_path / "alone" / config.name, Place(device="cpu"))
        assert numbers_of(tmp_path / config.name) == numbers_of(tmp_path / "alone" / config.name)
