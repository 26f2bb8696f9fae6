"""Triton's interpreter without the work it repeats: the results are the same, sooner.

A launch first makes the functions of ``triton.language`` interpreted ones and undoes that at its
end. In between every call of a device function does so again, which finds nothing left to do but
looks through the whole language to see it: a third of the time of ``test_gpu.py``.
"""

from functools import cache, wraps


def patch_language_once_a_launch() -> None:
    """Call it after TRITON_INTERPRET is set. Another Triton, built otherwise, is left as it is."""
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
