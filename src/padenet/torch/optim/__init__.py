"""What an optimiser needs to know of units.

groups.py       the parameter groups of a model
stabilizer.py   what holds the steps of a model's units: checks, reports, its state
holder.py       the hooks on one optimiser
bank.py         units of one kind, whose steps are held together (how far: padenet/torch/trust.py)
spikes.py       gradients that are suddenly much larger than usual
"""

from padenet.torch.optim.bank import Held
from padenet.torch.optim.groups import param_groups
from padenet.torch.optim.stabilizer import Stabilizer, stabilize

__all__ = ["Held", "Stabilizer", "param_groups", "stabilize"]
