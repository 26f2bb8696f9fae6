"""Triton's interpreter without the work it repeats: the results are the same, sooner.

Another Triton, built otherwise, is left as it is.
"""

from functools import cache, wraps

import torch


@cache
def repeat_less() -> None:
    """Call this after TRITON_INTERPRET is set, as often as you like. On a GPU it does nothing."""
    if not torch.cuda.is_available():
        _patch_language_once_a_launch()
        _remember_types()


def _patch_language_once_a_launch() -> None:
    """Not again at every call of a device function, which looks through the whole language.

    A launch makes the functions of ``triton.language`` interpreted ones and undoes that at its end:
    in between there is nothing left to do.
    """
    try:
        import triton.language as tl
        from triton.runtime import interpreter

        patch, Scope = interpreter._patch_lang, interpreter._LangPatchScope
        Scope().restore()
    except (ImportError, AttributeError, TypeError):
        return

    @cache
    def languages(fn):
        return frozenset(v for v in fn.__globals__.values() if v is tl or v is tl.core)

    patched = set()  # in the launch under way

    @wraps(patch)
    def patch_what_is_left(fn):
        own = languages(fn)
        if own and own <= patched:
            return Scope()  # with nothing to restore
        scope = patch(fn)
        restore = scope.restore

        def end_of_launch():
            restore()
            patched.clear()

        scope.restore = end_of_launch
        patched.update(own)
        return scope

    interpreter._patch_lang = patch_what_is_left


def _remember_types() -> None:
    """A type made once is not made, named and checked again for every value that has it."""
    try:
        from triton.language import core
        from triton.runtime import interpreter

        Scalar, Block, Tensor = core.dtype, core.block_type, core.tensor
        to_numpy, make_block, make_tensor = (
            interpreter._get_np_dtype,
            Block.__init__,
            Tensor.__init__,
        )
        to_numpy(Tensor(None, Block(core.float32, [1])).type.scalar)
    except (ImportError, AttributeError, TypeError):
        return

    dtypes, blocks, tensors = {}, {}, {}

    @wraps(to_numpy)
    def numpy_type(type_):
        scalar = type_.scalar
        if type(scalar) is not Scalar:  # a pointer
            return to_numpy(type_)
        if scalar.name not in dtypes:
            dtypes[scalar.name] = to_numpy(type_)
        return dtypes[scalar.name]

    @wraps(make_block)
    def block(self, element_ty, shape):
        if type(element_ty) is not Scalar:
            return make_block(self, element_ty, shape)
        key = (element_ty.name, *(getattr(n, "value", n) for n in shape))
        if key not in blocks:
            make_block(self, element_ty, shape)
            blocks[key] = dict(vars(self))
        vars(self).update(blocks[key])

    @wraps(make_tensor)
    def tensor(self, handle, type):
        if type.name not in tensors or isinstance(type.scalar, core.pointer_type):
            make_tensor(self, handle, type)
            tensors[type.name] = {**vars(self), "handle": None}
        vars(self).update(tensors[type.name], handle=handle, type=type, dtype=type.scalar)

    interpreter._get_np_dtype, Block.__init__, Tensor.__init__ = numpy_type, block, tensor
