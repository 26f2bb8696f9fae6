"""With units that are exactly what they replace, the new model is the old one."""

import copy

import pytest
import torch
import torch.nn.functional as F
from forwards_and_names import (
    Aliases,
    DecoratedInside,
    Imports,
    InText,
    ListInLoop,
    Loops,
    Mapped,
    Names,
    Outside,
    Own,
    Same,
    SameText,
    Starred,
    Stopped,
    Takes,
    Unbound,
    Written,
)
from forwards_in_order import (
    Asks,
    CalledTwice,
    Changes,
    Goes,
    Hooked,
    Keywords,
    Lists,
    MaybeInPlace,
    NamedInFormula,
    Outputs,
    Overridden,
    Overwritten,
    OverwrittenByChild,
    ReadAtOnce,
    WritesInside,
)
from networks import QUIET
from torch import nn

from padenet import convert

pytestmark = QUIET

EXACT = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "swish": F.silu}


class Exact(nn.Module):
    def __init__(self, init, **options):
        super().__init__()
        self.function = EXACT[init]

    def forward(self, x):
        return self.function(x)


CASES = {  # how many units there are, with gates and outputs
    ReadAtOnce: 1,
    NamedInFormula: 1,
    Outputs: 1,  # the sigmoid whose result is written elsewhere
    Overwritten: 0,
    OverwrittenByChild: 1,
    WritesInside: 0,
    MaybeInPlace: 0,
    Keywords: 1,
    Overridden: 0,
    Hooked: 1,
    Changes: 0,
    Asks: 0,
    Lists: 0,
    CalledTwice: 1,
    Names: 2,
    Imports: 2,
    Own: 1,
    Loops: 0,
    Outside: 0,
    Same: 0,
    Unbound: 1,
    Mapped: 0,
    Starred: 0,
    InText: 1,
    Aliases: 0,
    ListInLoop: 1,
    DecoratedInside: 0,
    Stopped: 3,
    Takes: 4,
    SameText: 2,
    Written: 0,
}


@pytest.mark.parametrize("cls", CASES, ids=lambda c: c.__name__)
@pytest.mark.parametrize("training", [False, True])
def test_the_meaning_stays(cls, training):
    torch.manual_seed(0)
    old = cls().double().train(training)
    new, report = convert(old, unit=Exact, everything=True)
    assert sum(isinstance(m, Exact) for m in new.modules()) == CASES[cls], report
    x = torch.randn(3, 4).double()
    kept = copy.deepcopy(old)
    for _ in range(2):  # the second time after what the first has set
        y, z = kept(x), new(x)
        assert torch.allclose(y, z, rtol=1e-12, atol=1e-12)  # some 20 operations, each 1e-16


def test_what_is_left_is_told():
    whys = {
        Outputs: "it is called with out",
        MaybeInPlace: "whether it is in place is computed in the forward",
        Changes: "relu: a forward sets f",
        Asks: "a forward asks for its type",
        Lists: "a list of modules, where a unit would be one more",
        Goes: "the forward of Goes goes through its children",
    }
    whys |= {Loops: "relu: a loop sets f", Same: "a forward asks for its identity"}
    whys |= {Starred: "relu: it is called with *"}
    whys |= {Unbound: "it is no child of a module", Mapped: "it is given to map"}
    for cls, why in whys.items():
        _, report = convert(cls(), everything=True)
        assert any(why in entry.why for entry in report.left), report
