"""Runs as tasks of a Ray cluster on this machine."""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from small_runs import numbers_of, small, trainers, wait_for

from padenet.lab.records.directory import RunDirectory
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import train
from padenet.lab.sweep import cluster
from padenet.lab.sweep.cluster import check_reachable, check_share, choose_device, run_on_ray
from padenet.lab.sweep.outcome import Outcome


def test_choose_device():
    assert choose_device("auto", {"CPU": 4}) == "cpu"
    assert choose_device("auto", {"CPU": 4, "GPU": 2}) == "cuda"
    assert choose_device("cpu", {"GPU": 2}) == "cpu"
    with pytest.raises(ValueError, match=r"device='cuda', but the Ray cluster has no GPU"):
        choose_device("cuda", {"CPU": 4})
    with pytest.raises(ValueError, match=r"device='cuda:1', but Ray chooses the GPU"):
        choose_device("cuda:1", {"GPU": 2})


def test_a_run_that_fits_no_machine_is_refused():
    small, large, with_gpu = {"CPU": 2.0}, {"CPU": 8.0}, {"CPU": 4.0, "GPU": 1.0}
    check_share({"num_cpus": 8, "num_gpus": 0}, [small, large, with_gpu])
    check_share({"num_cpus": 4, "num_gpus": 0.5}, [small, large, with_gpu])
    with pytest.raises(ValueError, match=r"asks for 64 CPU cores, and no machine .* more than 8\."):
        check_share({"num_cpus": 64, "num_gpus": 0}, [small, large])
    with pytest.raises(ValueError, match=r"more than 4 beside a GPU\. Give fewer --threads"):
        check_share({"num_cpus": 8, "num_gpus": 0.5}, [large, with_gpu])


class SlowRay:
    """A cluster that has begun one run at the deadline, and keeps the others waiting for ever."""

    exceptions = type("exceptions", (), {"RayError": RuntimeError})

    def __init__(self):
        self.cancelled, self.closed = [], False

    def cluster_resources(self):
        return {"CPU": 1.0}

    def nodes(self):
        return [{"Alive": True, "Resources": self.cluster_resources()}]

    def remote(self, **options):
        return lambda work: type("Task", (), {"remote": staticmethod(self.start)})

    def start(self, config, out, execution, threads):
        if config.seed == 0:
            RunDirectory(out / config.name).claim(config)
            (out / config.name / ".lock").touch()
        return config

    def wait(self, tasks, timeout):
        if timeout is not None:
            time.sleep(timeout)
            return [], tasks
        assert [t.seed for t in tasks] == [0]  # or it would hang
        return tasks, []

    def get(self, task):
        return Outcome(task, "unfinished")

    def cancel(self, task):
        self.cancelled.append(task.seed)

    def shutdown(self):
        self.closed = True


def test_the_deadline_ends_what_waits_for_the_cluster(tmp_path, monkeypatch):
    ray, outcomes = SlowRay(), []
    monkeypatch.setattr(cluster, "connect", lambda address, cores: ray)
    runs = [small(seed=s) for s in range(3)]
    execution = Execution(device="cpu", deadline=time.time() + 0.2)
    run_on_ray(runs, tmp_path, execution, 1, "local", threads=1, report=outcomes.append)
    assert time.time() < execution.deadline + 5
    assert (ray.cancelled, ray.closed) == ([1, 2], True)
    assert outcomes == [Outcome(runs[0], "unfinished")]
    monkeypatch.delattr(cluster, "connect")  # after the deadline no cluster is even looked for
    run_on_ray(runs, tmp_path, execution, 1, "local", report=outcomes.append)
    assert len(outcomes) == 1


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
        run_on_ray([small()], tmp_path, Execution(device="cpu"), 1, address)
    assert time.monotonic() - begun < 10


def test_addresses_without_a_port_are_left_to_ray(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for address in ("auto", "local", "elsewhere://cluster"):
        check_reachable(address)
    with pytest.raises(ValueError, match=r"--ray locall: no address\. Give auto, local or HOST:"):
        check_reachable("locall")
    with pytest.raises(ConnectionError, match=r"no Ray cluster at '\[::1\]:99999'"):
        check_reachable("[::1]:99999")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_killed_worker_is_replaced_and_its_run_goes_on(tmp_path):
    pytest.importorskip("ray")
    cut, failing, other = small("rpau", epochs=6, batch_size=16), small(dataset="mnist"), small()
    kills = []

    def kill():
        wait_for((tmp_path / cut.name / "checkpoint.pt").exists, 400)  # Ray may take long to start
        [pid] = trainers(tmp_path / cut.name)
        os.kill(pid, signal.SIGKILL)
        kills.append(pid)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    outcomes = []
    execution = Execution(device="cpu", data_dir=str(tmp_path / "nowhere"))
    run_on_ray([cut, failing, other], tmp_path, execution, 2, "local", report=outcomes.append)
    killer.join()
    assert len(kills) == 1
    states = {o.config.name: o.state for o in outcomes}
    assert states == {cut.name: "done", failing.name: "failed", other.name: "done"}
    for config in (cut, other):
        train(config, tmp_path / "alone" / config.name, Execution(device="cpu"))
        assert numbers_of(tmp_path / config.name) == numbers_of(tmp_path / "alone" / config.name)


class ClosedRay:
    """A cluster that answers, and lets nobody in."""

    def init(self, **options):
        raise ConnectionError("Failed to connect to Ray cluster\nand more")


@pytest.mark.parametrize("token", [True, False])
def test_a_token_is_shown_and_a_closed_door_explained(token, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    if token:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("secret")
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setattr(cluster, "require", lambda *names: ClosedRay())
    monkeypatch.setattr(cluster, "check_reachable", lambda address: None)
    with pytest.raises(
        ConnectionError, match=r"'box:1' does not let this machine in \(Failed.*tok"
    ):
        cluster.connect("box:1", 2)
    assert os.environ.get("RAY_AUTH_MODE") == ("token" if token else None)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with pytest.raises(ConnectionError, match="no Ray cluster at 'auto'"):
        cluster.connect("auto", 2)


def test_cores_are_the_machine_s_and_not_torch_s(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    torch.set_num_threads(1)
    assert cluster.count_cores() == 8
