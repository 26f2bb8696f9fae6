"""Runs as tasks of a Ray cluster on this machine."""

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from small_runs import numbers_of, small, trainers, wait_for

from padenet.experiments.cluster import check_reachable, choose_device, run_on_ray
from padenet.experiments.run import Place, train


def test_choose_device():
    assert choose_device("auto", {"CPU": 4}) == "cpu"
    assert choose_device("auto", {"CPU": 4, "GPU": 2}) == "cuda"
    assert choose_device("cpu", {"GPU": 2}) == "cpu"
    with pytest.raises(ValueError, match=r"device='cuda', but the Ray cluster has no GPU"):
        choose_device("cuda", {"CPU": 4})
    with pytest.raises(ValueError, match=r"device='cuda:1', but Ray chooses the GPU"):
        choose_device("cuda:1", {"GPU": 2})


@pytest.mark.parametrize("form", ["{}", "ray://{}", "auto"])
def test_an_unreachable_cluster_is_refused_at_once(form, monkeypatch, tmp_path):
    pytest.importorskip("ray")
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        check_reachable(form.format(f"{host}:{port}"))
    address = form.format(f"{host}:{port}")  # closed now
    monkeypatch.setenv("RAY_ADDRESS", f"{host}:{port}")
    begun = time.monotonic()
    with pytest.raises(ConnectionError, match=rf"no Ray cluster at '.*{port}' .*refused.*'local'"):
        run_on_ray([small()], tmp_path, Place(device="cpu"), 1, address)
    assert time.monotonic() - begun < 10


def test_addresses_without_a_port_are_left_to_ray(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for address in ("auto", "local", "elsewhere://cluster"):
        check_reachable(address)
    with pytest.raises(ConnectionError, match=r"no Ray cluster at '\[::1\]:99999'"):
        check_reachable("[::1]:99999")


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
