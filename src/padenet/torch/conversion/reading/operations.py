"""What the flow of values knows about torch: which operations act on each number by itself, which
only move numbers, which multiply tensors, and which make nothing that is worth following."""

import math
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ELEMENTWISE = _names(
    "abs absolute neg negative exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square pow reciprocal"
    " sin cos tan sinh cosh tanh sigmoid expit erf erfc sign clamp clip clamp_min clamp_max maximum"
    " minimum where add sub subtract rsub mul multiply div divide true_divide gt lt ge le eq ne"
    " greater less heaviside logaddexp relu relu6 leaky_relu elu celu selu silu gelu mish hardtanh"
    " hardsigmoid hardswish softplus softsign logsigmoid tanhshrink softshrink hardshrink"
    " threshold atan arctan asinh arcsinh zeros_like ones_like full_like"
)
"""Functions of torch, ``torch.special`` and ``F`` and methods, with ``_`` at the end in place."""
PRODUCTS = _names(
    "matmul bmm mm mv dot inner outer einsum baddbmm addbmm addmm addcmul addcdiv lerp tensordot"
    " linalg_multi_dot vdot chain_matmul cross kron"
)
MOVES = _names(
    "view view_as reshape reshape_as flatten unflatten ravel transpose permute movedim moveaxis t T"
    " mT swapaxes swapdims chunk split tensor_split unbind narrow select squeeze unsqueeze expand"
    " expand_as detach diagonal cat concat concatenate stack hstack vstack repeat tile"
    " repeat_interleave pad roll flip gather index_select take_along_dim masked_select contiguous"
    " clone interpolate upsample dropout dropout1d dropout2d dropout3d alpha_dropout"
    " feature_alpha_dropout unfold data real broadcast_to atleast_1d atleast_2d atleast_3d tril"
    " triu masked_fill masked_fill_ copy_ broadcast_tensors pixel_shuffle nan_to_num positive"
    " adjoint mH H as_strided hsplit vsplit dsplit unsafe_chunk unsafe_split view_as_real"
    " view_as_complex"
)
"""Results hold numbers of the input, in another place, or left out."""
CASTS = _names("to float double half bfloat16 type_as type cpu cuda")
ALIASES = _names(
    "getitem view view_as reshape flatten unflatten ravel transpose permute movedim t T mT chunk"
    " split tensor_split unbind narrow select squeeze unsqueeze expand expand_as detach diagonal"
    " swapaxes swapdims contiguous data real unfold broadcast_to to moveaxis positive adjoint mH H"
    " as_strided hsplit vsplit dsplit unsafe_chunk unsafe_split atleast_1d atleast_2d atleast_3d"
    " broadcast_tensors view_as_real view_as_complex reshape_as"
    " dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout"
    " Identity Flatten Unflatten Dropout Dropout1d Dropout2d Dropout3d AlphaDropout"
    " FeatureAlphaDropout"
)
"""Moves, by function or module, whose result may share memory with their input."""
META = _names(
    "shape size dim ndim ndimension numel device dtype requires_grad is_cuda stride layout grad_fn"
    " nelement element_size is_floating_point names is_contiguous training"
)
FOLDED = {float, int, bool, abs, min, max, round, torch.tensor, torch.as_tensor, getattr}
"""Called with constants only they give one."""
CHANGERS = _names("append extend insert add update setdefault appendleft put")
SHUFFLERS = _names("pop popitem popleft remove clear reverse sort rotate")
"""Methods after which the order of a container is not known."""
LOOKS = {len, isinstance, hasattr, id, repr, str, type, callable, issubclass}
OF_MODULES = frozenset(dir(nn.Module()))
"""What every module has, a unit too."""
QUESTIONS = {getattr: "attributes", hasattr: "attributes", repr: "name", str: "name"}
MOVING_MODULES = (
    nn.Identity,
    nn.Flatten,
    nn.Unflatten,
    nn.modules.dropout._DropoutNd,
    nn.Upsample,
    nn.PixelShuffle,
    nn.ZeroPad2d,
)
WRAPPERS = (
    nn.DataParallel,
    nn.parallel.DistributedDataParallel,
    torch.optim.swa_utils.AveragedModel,
)
BINARY: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
}
UNARY: dict[str, Callable[..., Any]] = {
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Not": operator.not_,
    "Invert": operator.invert,
}
COMPARE: dict[str, Callable[..., Any]] = {
    "Gt": operator.gt,
    "Lt": operator.lt,
    "GtE": operator.ge,
    "LtE": operator.le,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}
AFFINE = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "USub": "neg"}
SAME = {"subtract": "sub", "rsub": "sub", "multiply": "mul", "divide": "div", "true_divide": "div"}
PLAIN = (bool, int, float, str, type(None), torch.dtype, slice)
"""Values that a constant may have."""


def is_torch(function: Any) -> bool:
    """A function of torch's, in C or in Python."""
    home = str(getattr(function, "__module__", "") or "")
    if home.split(".")[0] == "torch" or home.startswith("torch._C"):
        return True
    name = getattr(function, "__name__", "")
    return isinstance(function, BuiltinFunctionType) and any(
        getattr(place, name, None) is function for place in (torch, F, torch.special)
    )


def is_math(function: Any) -> bool:
    name = getattr(function, "__name__", "")
    return isinstance(function, BuiltinFunctionType) and getattr(math, name, None) is function


def is_python(function: Any) -> bool:
    return isinstance(function, FunctionType) and not is_torch(function)


def short(function: Any) -> str:
    """``special_expit`` is ``expit``; the methods of in-place twins keep their ``_``."""
    return str(getattr(function, "__name__", "")).removeprefix("special_")
