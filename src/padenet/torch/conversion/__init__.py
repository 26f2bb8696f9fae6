"""A model → its Padé network: ``convert``, and what training and moving in need besides."""

from padenet.torch.conversion.acts import register_act2fn
from padenet.torch.conversion.model import convert
from padenet.torch.conversion.peer import from_rational_activations
from padenet.torch.conversion.report import Left, Replaced, Report

__all__ = [
    "Left",
    "Replaced",
    "Report",
    "convert",
    "from_rational_activations",
    "register_act2fn",
]
