"""How a tensor lies in memory: what a kernel may read as it is, and in which order."""

from torch import Tensor


def memory_order(x: Tensor) -> tuple[int, ...] | None:
    """The dims of ``x`` from the largest stride to the smallest if it is dense, else None."""
    if x.is_contiguous():
        return ()  # that of the shape
    sizes, strides = x.shape, x.stride()
    dims = sorted((d for d in range(x.ndim) if sizes[d] != 1), key=lambda d: -strides[d])
    expected = 1
    for d in reversed(dims):
        if strides[d] != expected:
            return None
        expected *= sizes[d]
    return tuple(dims)


def is_dense(x: Tensor) -> bool:
    """Whether it is one piece of memory, in any order of its dims."""
    return x.is_contiguous() or memory_order(x) is not None


def same_layout(dy: Tensor, x: Tensor) -> bool:
    """Of two tensors of one shape."""
    if x.is_contiguous() and dy.is_contiguous():  # quicker than to ask for strides
        return True
    s, t = dy.stride(), x.stride()
    return s == t or all(p == q or n == 1 for p, q, n in zip(s, t, x.shape, strict=True))


def is_one_number(dy: Tensor) -> bool:
    return all(s == 0 or n == 1 for s, n in zip(dy.stride(), dy.shape, strict=True))
