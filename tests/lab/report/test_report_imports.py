"""The report reads records: it knows nothing of training and of nets."""

import os
import subprocess
import sys

LOADS = """
import sys
import padenet.lab.report
print([m for m in sys.modules if m.startswith(("padenet.lab.run", "padenet.lab.nets"))])
"""


def test_the_report_does_not_load_the_learner():
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOADS],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    assert run.stdout.strip() == "[]", run.stdout
