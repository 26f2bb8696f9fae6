"""A sweep: all runs of a recipe under one directory.

The run directories hold all there is to know, so a sweep can be interrupted and repeated at will,
by any scheduler: runs that have a result are left alone, the others resume.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from padenet.lab.records.config import Config
from padenet.lab.run.execution import Execution
from padenet.lab.sweep.checks import check_directories
from padenet.lab.sweep.jobs import run_all
from padenet.lab.sweep.outcome import OnEnd, Outcome, say_nothing
from padenet.lab.sweep.status import Status, look


def sweep(
    configs: Iterable[Config],
    out: str | Path,
    execution: Execution,
    jobs: int = 1,
    *,
    ray: str | None = None,
    threads: int | None = None,
    report: OnEnd = say_nothing,
) -> list[Status]:
    """Train what has no result yet, ``jobs`` at a time, until ``execution.deadline``.

    Args:
        ray: "local" or the address of a Ray cluster, in the place of this machine's processes.
        threads: CPU threads of each run.
        report: Called as each run ends.

    Returns:
        Where every run stands at the end.
    """
    configs = list(configs)
    check_directories(configs, out)
    failed: dict[str, str] = {}

    def note(outcome: Outcome) -> None:
        if outcome.state == "failed":
            failed[outcome.config.name] = outcome.reason
        report(outcome)

    left = [c for c in configs if look(c, out).result is None]
    if ray is None:
        run_all(left, out, execution, jobs, threads=threads, report=note)
    elif left:
        from padenet.lab.sweep.cluster import run_on_ray

        run_on_ray(left, out, execution, jobs, ray, threads=threads, report=note)
    return [
        replace(s, state="failed", reason=failed[c.name]) if c.name in failed else s
        for c in configs
        for s in [look(c, out)]
    ]
