"""What an optimiser needs to know of units.

    groups.py       the parameter groups of a model
    stabilizer.py   the hooks that hold each step, and what they did (how far: padenet/trust.py)
"""

from padenet.optim.groups import param_groups
from padenet.optim.stabilizer import Held, Stabilizer, stabilize

__all__ = ["Held", "Stabilizer", "param_groups", "stabilize"]
