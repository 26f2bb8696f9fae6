"""A model → its Padé network: ``convert``, and what training and moving in need besides."""

from padenet.convert.acts import register_act2fn
from padenet.convert.model import convert
from padenet.convert.peer import from_rational_activations
from padenet.convert.report import Left, Replaced, Report

__all__ = [
    "Left",
    "Replaced",
    "Report",
    "convert",
    "from_rational_activations",
    "register_act2fn",
]
