"""``pade``: exact, against the paper's columns and series."""

import math
from fractions import Fraction

import numpy as np
import pytest
from fits import series, small
from hypothesis import given
from hypothesis import strategies as st

from padenet import pade
from padenet.core.starting.starts import STARTS

pytest.importorskip("scipy", reason="fitting needs scipy")


def multiply(u, v):
    out = [Fraction(0)] * (len(u) + len(v) - 1)
    for i, s in enumerate(u):
        for j, t in enumerate(v):
            out[i + j] += s * t
    return out


def expand(P, Q, terms):
    """The series of P / Q, Q(0) = 1."""
    c = []
    for i in range(terms):
        known = sum((Q[k] * c[i - k] for k in range(1, min(i, len(Q) - 1) + 1)), Fraction(0))
        c.append((P[i] if i < len(P) else 0) - known)
    return c


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "swish"])
def test_pade_is_the_papers_column(name):
    a, b = pade(series(name, 10), 5, 4)
    paper = STARTS[f"paper_{name}"]
    assert [float(v) for v in a] == list(paper.a)
    assert [float(v) for v in b[:3]] == list(paper.b[:3])
    last = {"sigmoid": Fraction(1, 1008), "tanh": Fraction(1, 63), "swish": Fraction(1, 1680)}
    assert b[3] == last[name]  # the paper prints 1/10008 for sigmoid


def test_pade_of_exp():
    a, b = pade([Fraction(1, math.factorial(k)) for k in range(5)], 2, 2)
    assert a == (1, Fraction(1, 2), Fraction(1, 12))
    assert b == (Fraction(-1, 2), Fraction(1, 12))
    assert pade([1, "1/2", 0.25], 2, 0) == ((1, Fraction(1, 2), Fraction(1, 4)), ())


@given(st.lists(small, min_size=1, max_size=4), st.lists(small, max_size=3), st.integers(0, 2))
def test_pade_finds_a_rational_function_again(P, b, more):
    Q = [Fraction(1), *b]
    m, n = len(P) - 1 + more, len(b) + more
    a, found = pade(expand(P, Q, m + n + 1), m, n)
    left, right = multiply(a, Q), multiply(P, [Fraction(1), *found])
    size = max(len(left), len(right))
    pad = lambda c: [*c, *[0] * (size - len(c))]
    assert pad(left) == pad(right)


@given(st.lists(st.integers(-3, 3), min_size=7, max_size=7), st.integers(0, 6))
def test_pade_agrees_with_the_series_or_refuses(c, m):
    n = 6 - m
    # The linear system for b, by rank: it has a solution or it has none.
    rows = [[c[i - k] if i >= k else 0 for k in range(1, n + 1)] for i in range(m + 1, 7)]
    left = np.array(rows, float).reshape(n, n)
    both = np.hstack([left, np.array(c[m + 1 :], float)[:, None]])
    if n and np.linalg.matrix_rank(both) > np.linalg.matrix_rank(left):
        with pytest.raises(ValueError, match=rf"no Padé approximant \[{m}/{n}\]"):
            pade(c, m, n)
        return
    a, b = pade(c, m, n)
    product = multiply([Fraction(v) for v in c], [Fraction(1), *b])[:7]
    assert product == [*a, *[0] * n]


PADE_WRONG = [
    (([1, 0, 1], 1, 1), r"no Padé approximant \[1/1\]"),
    (([1, 2], 1, 1), r"series has 2 terms, but \[1/1\] needs m \+ n \+ 1 = 3"),
    (([1, math.nan, 1], 1, 1), r"series\[1\]=nan is not a finite number"),
    (([1, "x", 1], 1, 1), r"series\[1\]='x' is not a finite number"),
    (([1, 2], -1, 1), "m=-1 must be a whole number"),
    (([1, 2], 1, 0.5), "n=0.5 must be a whole number"),
]


@pytest.mark.parametrize("arguments, message", PADE_WRONG, ids=[w[1] for w in PADE_WRONG])
def test_pade_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        pade(*arguments)
