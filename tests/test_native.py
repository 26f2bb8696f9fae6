"""What only the C++ kernel can do wrong."""

import os

import pytest
import torch
from conftest import running_on

from padenet import PAU


@pytest.mark.no_poison  # it fills with torch, which waits too
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_it_lacks():
    with running_on("native"):
        torch.set_num_threads(2)
        unit, x = PAU(), torch.randn(1 << 20)
        fork = torch.multiprocessing.get_context("fork")
        child = fork.Process(target=compare, args=(unit, x, unit(x)))
        child.start()
        child.join(20)
        alive = child.is_alive()
        child.kill()
        assert not alive and child.exitcode == 0


def compare(unit, x, want):
    got = unit(x)
    torch.set_num_threads(1)  # torch's own operations would wait
    os._exit(0 if torch.equal(got, want) else 1)
