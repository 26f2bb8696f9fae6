"""unit.formula: the Python and C sources are run and compared with the unit."""

import ctypes
import os
import shutil
import subprocess

import numpy as np
import pytest
import torch
from formula import CASES, assert_near, problem
from hypothesis import given
from hypothesis import strategies as st

from padenet import PAU, RPAU
from padenet.core.starting.starts import STARTS

COMPILER = shutil.which(os.environ.get("CC", "cc")) or shutil.which("g++")


def unit_of(case, dtype=torch.float64):
    _, a, b = problem(case)
    options = {**case.options, "degrees": case.degrees, "groups": case.groups, "dtype": dtype}
    return PAU((a, b), **options)


def values(unit, x):
    """(group, point) of the unit in float64."""
    wide = x.expand(unit.groups, -1).contiguous()
    copy = PAU(
        (unit.a, unit.b),
        degrees=unit.degrees,
        form=unit.form,
        q=unit.q,
        groups=unit.groups,
        channel_dim=0,
        dtype=torch.float64,
    )
    return copy(wide).detach()


def run(source, x):
    scope = {}
    exec(source, scope)
    return scope["pau"](x)


X = torch.linspace(-2, 2, 401, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_python_is_the_unit(case, dtype):
    unit = unit_of(case, dtype)
    expected = values(unit, X)
    for g in range(case.groups):
        source = unit.formula("python", g)
        assert_near(run(source, X), expected[g], 64)
        assert_near(torch.tensor(run(source, X.numpy())), expected[g], 64)
        assert run(source, 0.5) == pytest.approx(run(source, np.array([0.5]))[0], rel=1e-14)


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_c_is_the_unit(case, tmp_path):
    unit = unit_of(case)
    expected = values(unit, X)
    for g in range(case.groups):
        code, library = tmp_path / f"pau{g}.c", tmp_path / f"pau{g}.so"
        code.write_text(unit.formula("c", g))
        command = [COMPILER, "-x", "c", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, code]
        subprocess.run(command, check=True)
        pau = ctypes.CDLL(str(library)).pau
        pau.restype, pau.argtypes = ctypes.c_double, [ctypes.c_double]
        y = torch.tensor([pau(v) for v in X.tolist()], dtype=torch.float64)
        assert_near(y, expected[g], 64)


coefficient = st.floats(-1e3, 1e3).map(lambda v: v if abs(v) > 1e-100 else 0.0)


@given(
    st.lists(coefficient, min_size=1, max_size=4),
    st.lists(coefficient, min_size=1, max_size=4),
    st.sampled_from(["safe", "abs_terms", "offset"]),
)
def test_any_coefficients(a, b, form):
    degrees = len(a) - 1, len(b) - (form == "offset")
    unit = PAU((a, b), degrees=degrees, form=form, dtype=torch.float64)
    y = run(unit.formula("python"), X)
    size = sum(abs(v) * X.abs() ** j for j, v in enumerate(a))
    slope = 1 + sum(abs(v) * X.abs() ** k for k, v in enumerate(b, form != "offset"))
    # 20 roundings of P, and as many of Q, which moves F by F / Q.
    room = 20 * torch.finfo(torch.float64).eps * (size * slope)
    assert y.shape == X.shape
    assert ((y - unit(X)).abs() <= room + 1e-300).all()


def test_text():
    unit = PAU(([0.0, 1.0, -0.5, 2e-9], [0.0, 0.25, -1.0]), degrees=(3, 3))
    assert unit.formula() == "F(x) = (x - 0.5 x^2 + 2e-09 x^3) / (1 + |0.25 x^2 - x^3|)"
    assert unit.formula("latex") == (
        r"F(x) = \frac{x - 0.5\,x^{2} + 2 \cdot 10^{-9}\,x^{3}}"
        r"{1 + \left|0.25\,x^{2} - x^{3}\right|}"
    )


FORMS = {
    ("abs_terms", 1.0): "(1 + |0.5 x| + |2 x^2|)",
    ("free", 1.0): "(1 - 0.5 x + 2 x^2)",
    ("offset", 0.1): "(0.1 + |-0.5 + 2 x|)",
}


@pytest.mark.parametrize("form, q", FORMS)
def test_text_of_forms(form, q):
    degrees = (1, 2 - (form == "offset"))
    unit = PAU(([-1.5, 0.0], [-0.5, 2.0]), degrees=degrees, form=form, q=q)
    assert unit.formula("text") == f"F(x) = (-1.5) / {FORMS[form, q]}"
    assert r"\frac{-1.5}{" in unit.formula("latex")


def test_zero_and_constant():
    assert PAU(([0.0], []), degrees=(0, 0)).formula() == "F(x) = (0) / (1)"
    assert run(PAU(([2.0], []), degrees=(0, 0)).formula("python"), X).shape == X.shape


def test_the_default_can_be_read():
    text = PAU().formula()
    a, b = STARTS["lrelu"].a, STARTS["lrelu"].b
    assert text.startswith(f"F(x) = ({a[0]:.6g} + {a[1]:.6g} x + ")
    assert text.endswith(f"/ (1 + |{b[1]:.6g} x^2 + {b[3]:.6g} x^4|)")
    assert RPAU().formula() == text


def test_errors():
    with pytest.raises(ValueError, match=r"unknown style 'html' .* Known: text, latex, python, c"):
        PAU().formula("html")
    for group in (None, 2, -3):
        with pytest.raises(ValueError, match=f"group={group}, but the unit has 2 groups"):
            PAU(groups=2).formula("c", group)
    with pytest.raises(ValueError, match="group=1, but the unit has no groups"):
        PAU().formula("c", 1)
    unit = PAU()
    unit.a.data[0] = torch.nan
    with pytest.raises(ValueError, match="a coefficient is nan"):
        unit.formula()
