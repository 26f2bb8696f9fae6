"""Who is looking at a tensor: nobody but us, or a tracer, a transform or a mode of torch's.

A kernel reads memory behind torch's back. That is right only for a tensor which has memory and
whose operations nobody records.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.fx import Proxy

_PLAIN = {Tensor, torch.nn.Parameter}
_is_compiling = torch.compiler.is_compiling
_transforms_active = torch._C._are_functorch_transforms_active
_modes_active = torch._C._len_torch_dispatch_stack
_is_on = torch._C._dispatch_tls_is_dispatch_key_included
_PRE_DISPATCH = torch._C.DispatchKey.PreDispatch  # modes that see operations before autograd
_is_tracing = torch._C._is_tracing
_has_memory = torch._C._has_storage
BEFORE_2_12 = torch.__version__ < "2.12"


def is_transforming() -> bool:
    """Inside ``torch.func`` (grad, vjp, jvp, vmap, ...) or ``forward_ad.dual_level()``."""
    return _transforms_active() or forward_ad._current_level >= 0


def forward_levels() -> int:
    """How many derivatives in forward mode are under way, one inside the other."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    inner = sum(i.key() == torch._C._functorch.TransformType.Jvp for i in stack)
    return inner + (forward_ad._current_level >= 0 and not inner)


def is_exporting() -> bool:
    """Inside ``torch.export``. Before torch 2.12 a strict export looks like ``torch.compile``."""
    if BEFORE_2_12:
        return torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
    return torch.compiler.is_exporting()


def is_recording() -> bool:
    """Inside ``torch.export`` or ``torch.jit.trace``: what is run is written down as a program."""
    return is_exporting() or torch.jit.is_tracing()


def is_plain(*tensors: Tensor | None) -> bool:
    """Every tensor is what its memory says, and nobody records or derives what happens to it."""
    if _is_compiling() or is_transforming() or _is_tracing():
        return False
    if _modes_active() or _is_on(_PRE_DISPATCH):
        return False
    for t in tensors:
        if t is not None and (type(t) not in _PLAIN or t.is_neg() or not _has_memory(t)):
            return False
    return True


def record_call(function: Callable[..., Any], args: tuple[Any, ...], options: Any) -> Proxy:
    """The call as one node of the graph that ``torch.fx`` is tracing."""
    (tracer, *_) = (arg.tracer for arg in args if isinstance(arg, Proxy))
    return tracer.create_proxy("call_function", function, args, options)


def record_module(module: nn.Module, x: Any) -> Proxy:
    """The call of a module as one node, as if the module were torch's own."""
    path = x.tracer.path_of_module(module)
    if not path:
        raise TypeError(
            f"torch.fx cannot record {type(module).__name__} in training as a whole model. "
            "Call eval() first, or put it into an nn.Sequential."
        )
    node: Proxy = x.tracer.create_proxy("call_module", path, (x,), {})
    return node
