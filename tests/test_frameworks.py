"""The same unit in every framework: values, gradients and noise, to rounding, and by exchange."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from conformance import LIMITS, NAMES, complaint, computed_in, read
from frameworks import FRAMEWORKS, KEY, NOISY, SRC, answers_of, missing, noisy_problem

import padenet
from padenet import exchange
from padenet.core import FORMS
from padenet.torch import reference


def units():
    """Units of torch by name, with coefficients of no start."""
    torch.manual_seed(0)
    found = {}
    for form in FORMS:
        for groups in (1, 3):
            options = {"q": 0.5} if FORMS[form].around and groups == 3 else {}
            unit = padenet.PAU("gelu", form=form, groups=groups, **options)
            with torch.no_grad():
                for c in (unit.a, unit.b):
                    c.mul_(1 + 0.1 * torch.randn_like(c))
            found[f"{form}, {groups}"] = unit
    found["noise"] = padenet.RPAU("tanh", alpha=0.05)
    return found


RECORDS = json.dumps({name: exchange.to_dict(unit) for name, unit in units().items()})


def answers(name):
    if reason := missing(FRAMEWORKS[name]):
        pytest.skip(f"{name}: {reason}")
    return answers_of(name, RECORDS)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_conformance(name):
    """y and the gradients of every case, in every dtype, through the public functions.

    TensorFlow flushes to zero what is below the smallest normal number.
    """
    framework, found, wrong = FRAMEWORKS[name], answers(name), []
    for i, case in enumerate(read()[0]):
        for dtype in case.dtypes:
            if framework.refuses(case, dtype) or (case.key is not None and not framework.noise):
                continue
            spare = LIMITS[computed_in(dtype)].smallest * 2.0**24 if "Tensor" in name else 0.0
            for n in NAMES:
                wrong += filter(None, [complaint(case, dtype, n, found[f"{i}/{dtype}/{n}"], spare)])
    assert len(found) > 2000
    assert not wrong, "\n".join([f"{len(wrong)} answers are wrong", *wrong[:8]])


@pytest.mark.parametrize("name", [n for n, f in FRAMEWORKS.items() if f.noise])
def test_the_noise_of_a_key(name):
    """Against float64, 200 roundings of float32 in a sum of its terms' size; other noise is off by
    parts of a hundred."""
    dy, *given = (torch.tensor(v).double() for v in noisy_problem())
    key = torch.tensor(KEY)
    want = [reference.forward(*given, key, NOISY), *reference.backward(dy, *given, key, NOISY)]
    for n, w in zip(NAMES, want, strict=True):
        got, w = answers(name)[f"noise/{n}"], w.numpy()
        assert np.abs(got - w).max() <= 200 * 2.0**-24 * np.abs(w).max(), n


@pytest.mark.parametrize("name", [n for n, f in FRAMEWORKS.items() if f.keras])
def test_units_of_torch_in_keras(name):
    """Through a record; Keras gives the same record back (``units_of_keras``)."""
    x = noisy_problem()[1]
    for n, unit in units().items():
        got = answers(name)[f"unit/{n}"]
        want = unit.eval().double()(torch.tensor(x).double()).detach().numpy()
        assert np.abs(got - want).max() <= 64 * 2.0**-24 * np.abs(want).max(), n


@pytest.mark.parametrize("name", ["torch", "flax", "keras"])
def test_the_example_learns_in_each(name):
    """As its docstring says: 100 %, here at least 97."""
    pytest.importorskip(name)
    if name == "keras":
        pytest.importorskip("jax")
    example = SRC.parent / "examples" / "spirals.py"
    own = {"KERAS_BACKEND": "jax", "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-W", "ignore", str(example), name]
    done = subprocess.run(
        command, env={**os.environ, **own}, capture_output=True, text=True, check=True
    )
    assert float(done.stdout.split()[1].rstrip("%")) >= 97, done.stdout
