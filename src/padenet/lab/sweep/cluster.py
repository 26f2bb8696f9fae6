"""Runs on a Ray cluster: each is one task, and Ray decides where and when.

Every machine needs padenet, the data sets and the directory of the runs, under the same path. A
task whose process or machine dies is started again by Ray, anywhere, and resumes from the
checkpoint in that directory.
"""

import math
import os
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from padenet.core import require
from padenet.lab.records.config import Config
from padenet.lab.run.execution import Execution
from padenet.lab.run.machine import count_cores
from padenet.lab.sweep.jobs import TRIES, attempt, check_jobs, record_death, taken_up
from padenet.lab.sweep.outcome import OnEnd, say_nothing

PATIENCE = 5.0  # seconds for a cluster to answer


def run_on_ray(
    configs: Iterable[Config],
    out: str | Path,
    execution: Execution,
    jobs: int,
    address: str,
    *,
    threads: int | None = None,
    report: OnEnd = say_nothing,
) -> None:
    """Train every run in ``out``/its name on the cluster at ``address``; "local" makes one here.

    Args:
        jobs: Runs at a time on each GPU; without GPUs, on a machine with as many cores as this.
        threads: CPU threads of each run; by default the cores are shared out.
        report: Called as each run ends; not for runs that the deadline kept from starting.
    """
    check_jobs(jobs)
    begun = time.time()
    if begun >= execution.deadline:
        return
    cores = count_cores()
    ray = connect(address, cores)
    try:
        execution = replace(
            execution, device=choose_device(execution.device, ray.cluster_resources())
        )
        if execution.data_dir is not None:
            execution = replace(execution, data_dir=str(Path(execution.data_dir).resolve()))
        share = {"num_cpus": threads or _share(cores, jobs), "num_gpus": 0.0}
        if execution.device == "cuda":
            share = {"num_cpus": threads or 1, "num_gpus": 1 / jobs}
        check_share(share, [n["Resources"] for n in ray.nodes() if n["Alive"]])
        threads = max(1, int(share["num_cpus"]))
        start = ray.remote(max_retries=TRIES - 1, **share)(attempt).remote
        out = Path(out).resolve()
        running = {start(c, out, execution, threads): c for c in configs}
        deadline = execution.deadline
        while running:
            left = None if deadline == math.inf else max(0.0, deadline - time.time())
            ended, _ = ray.wait(list(running), timeout=left)
            for task in ended:
                config = running.pop(task)
                try:
                    report(ray.get(task))
                except ray.exceptions.RayError as error:
                    last = str(error).strip().splitlines()[-1]
                    report(record_death(config, out, f"Ray gave it up: {last}"))
            if not ended:
                # Those that train end by themselves, after their epoch. The others may wait for
                # cores, or for a process to start, long after the deadline.
                for task in [t for t, c in running.items() if not taken_up(c, out, begun)]:
                    ray.cancel(task)
                    del running[task]
                deadline = math.inf
    finally:
        ray.shutdown()


def connect(address: str, cores: int) -> Any:
    """Ray, joined to the cluster or with a new one on this machine."""
    # Ray reads these as it is imported: it is to send nothing home, to leave the choice of GPUs
    # alone for a task that asks for none, and to show the token of the cluster.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address != "local" and _has_token() and "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    ray = require("ray", "cluster")
    check_reachable(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address == "local":
        options |= {"num_cpus": cores, "include_dashboard": False}
    try:
        ray.init(address=address, **options)
    except ConnectionError as error:
        reason = str(error).splitlines()[0]
        if address == "auto":
            raise _no_cluster(address, reason) from error
        raise ConnectionError(
            f"the Ray cluster at {address!r} does not let this machine in ({reason}). It may want "
            "a token, in ~/.ray/auth_token: see docs/sweeps.md."
        ) from error
    return ray


def _has_token() -> bool:
    """Whether this machine holds the token of a cluster, where Ray looks for it."""
    told = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(told) or Path("~/.ray/auth_token").expanduser().is_file()


def check_reachable(address: str) -> None:
    """Refuse an address where nothing listens: Ray itself would try again for minutes."""
    found = os.environ.get("RAY_ADDRESS") if address == "auto" else None
    host, colon, port = (found or address).removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        if address not in ("auto", "local") and "://" not in address:
            raise ValueError(f"--ray {address}: no address. Give auto, local or HOST:PORT.")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(found or address, str(error)) from error


def _no_cluster(address: str, reason: str) -> ConnectionError:
    return ConnectionError(
        f"no Ray cluster at {address!r} ({reason}). Start one with ray start --head, "
        "or use 'local'."
    )


def choose_device(device: str, resources: dict[str, float]) -> str:
    """ "cpu" or "cuda" for every task, by what the cluster has."""
    gpus = resources.get("GPU", 0)
    if device == "auto":
        return "cuda" if gpus else "cpu"
    if device.startswith("cuda:"):
        raise ValueError(f"device={device!r}, but Ray chooses the GPU of a run. Use 'cuda'.")
    if device == "cuda" and not gpus:
        raise ValueError("device='cuda', but the Ray cluster has no GPU. Use 'cpu'.")
    return device


def check_share(share: dict[str, float], machines: list[dict[str, float]]) -> None:
    """Refuse a run that fits no machine of the cluster: Ray would wait for one for ever."""
    wanted = share["num_cpus"]
    able = [m for m in machines if m.get("GPU", 0) >= share["num_gpus"]]
    most = max((m.get("CPU", 0) for m in able), default=0)
    if wanted > most:
        raise ValueError(
            f"a run asks for {wanted:g} CPU cores, and no machine of the Ray cluster has more than "
            f"{most:g}{' beside a GPU' if share['num_gpus'] else ''}. Give fewer --threads."
        )


def _share(cores: int, jobs: int) -> float:
    """Of the cores, for each of ``jobs``: whole ones, or a part of one."""
    return cores // jobs if cores >= jobs else cores / jobs
