"""The same unit in every framework: values, gradients and noise, to rounding, and by exchange."""

import json

import numpy as np
import pytest
import torch
from conformance import LIMITS, NAMES, complaint, computed_in, read
from frameworks import FRAMEWORKS, NOISY, KEY, answers_of, missing, noisy_problem

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


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    if reason := missing(FRAMEWORKS[request.param]):
        pytest.skip(f"{request.param}: {reason}")
    return request.param


def answers(name):
    return answers_of(name, RECORDS)


def test_conformance(framework):
    """y and the gradients of every case, in every dtype, through the public functions."""
    found, wrong, seen = answers(framework), [], 0
    for i, case in enumerate(read()[0]):
        for dtype in case.dtypes:
            spare = LIMITS[computed_in(dtype)].smallest * 2.0**24
            for name in NAMES:
                got = found.get(f"{i}/{dtype}/{name}")
                if got is None:
                    assert case.key is not None and not FRAMEWORKS[framework].noise
                    continue
                more = spare if FRAMEWORKS[framework].flushes else 0.0
                wrong += filter(None, [complaint(case, dtype, name, got, more)])
                seen += 1
    assert seen > 2500
    assert not wrong, "\n".join([f"{len(wrong)} answers are wrong", *wrong[:8]])


def test_the_noise_of_a_key(framework):
    """Against float64, 200 roundings of float32 in a sum of its terms' size; other noise is off by
    parts of a hundred."""
    if not FRAMEWORKS[framework].noise:
        return
    dy, *given = (torch.tensor(v).double() for v in noisy_problem())
    key = torch.tensor(KEY)
    want = [reference.forward(*given, key, NOISY), *reference.backward(dy, *given, key, NOISY)]
    for name, w in zip(NAMES, want, strict=True):
        got, w = answers(framework)[f"noise/{name}"], w.numpy()
        assert np.abs(got - w).max() <= 200 * 2.0**-24 * np.abs(w).max(), name


def test_units_of_torch_in_keras(framework):
    """Through a record; Keras gives the same record back (``units_of_keras``)."""
    if not FRAMEWORKS[framework].keras:
        return
    x = noisy_problem()[1]
    for name, unit in units().items():
        got = answers(framework)[f"unit/{name}"]
        want = unit.eval().double()(torch.tensor(x).double()).detach().numpy()
        assert np.abs(got - want).max() <= 64 * 2.0**-24 * np.abs(want).max(), name
