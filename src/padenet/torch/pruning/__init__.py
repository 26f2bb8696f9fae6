"""Structured pruning: filters of convolutions are taken out, and all that belongs to them.

record.py     what a pruning is: which filters stay, as data that can be saved and applied
channels.py   what is known of a tensor: which filter each of its channels comes from
layers.py     what each kind of layer does with channels, and how it is shortened
functions.py  what functions and operators between layers do with channels
flow.py       a model run once, to follow channels from filters to the layers that read them
choice.py     filters that live and die together, and the weakest of them
spread.py     zeros in the places of removed filters, where a sum needs all channels
compare.py    whether a smaller model gives what masks give
surgery.py    cuts made in a model, and cuts of cuts
checks.py     models and arguments that cannot be pruned
model.py      prune, apply_pruning
"""

from padenet.torch.pruning.model import apply_pruning, prune
from padenet.torch.pruning.record import Pruning, Size, measure_size, percent

__all__ = ["Pruning", "Size", "apply_pruning", "measure_size", "percent", "prune"]
