"""``cases_layers.py`` on each backend of Keras, each in a process of its own."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
SRC = FOLDER.parents[1] / "src"
BACKENDS = {"jax": "jax", "tensorflow": "tensorflow", "torch": "torch"}
if not find_spec("keras"):
    pytest.skip("keras is not installed", allow_module_level=True)


def run(backend, *command, **options):
    path = os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    own = {
        "KERAS_BACKEND": backend,
        "PYTHONPATH": path,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        cwd=FOLDER,
        env={**os.environ, **own},
        **options,
    )


def need(backend):
    if not find_spec(BACKENDS[backend]):
        pytest.skip(f"{BACKENDS[backend]} is not installed")


@pytest.mark.parametrize("backend", BACKENDS)
def test_layers(backend):
    need(backend)
    done = run(backend, "-m", "pytest", "-q", "-p", "no:cacheprovider", "cases_layers.py")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_only_the_backend_is_loaded(backend):
    need(backend)
    code = (
        "import sys; import padenet.keras as pk; import numpy; "
        "pk.PAU()(numpy.zeros((2, 3), 'float32')); print(*sys.modules)"
    )
    done = run(backend, "-W", "ignore", "-c", code, check=True)
    modules = set(done.stdout.split())  # jax is loaded by Keras wherever it is installed
    others = set(BACKENDS.values()) - {BACKENDS[backend], "jax"}
    assert not modules & others
    ours = {name for name in ("padenet.jax", "padenet.torch") if name in modules}
    assert ours == {f"padenet.{backend}"} - {"padenet.tensorflow"}
