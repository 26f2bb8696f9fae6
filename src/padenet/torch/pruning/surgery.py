"""Cuts made in a model, and cuts of cuts."""

from functools import partial
from typing import Any

from torch import Tensor, nn

from padenet.torch.pruning.compare import agree, check_output, run_in_double, shapes
from padenet.torch.pruning.layers import cut_layer
from padenet.torch.pruning.record import Cut, Kept, Size, run_measured, run_once
from padenet.torch.pruning.spread import Spread

LAYER, SPREAD = "layer", "spread"  # names in the Sequential that takes the place of a layer

FIXED = (
    "Its forward may contain a fixed number of them, as in x.view(-1, 9216): write x.flatten(1)."
)
WRAPPED = (
    "A layer before a sum becomes Sequential(layer, spread): let forward not read its attributes, "
    "e.g. x.dtype in place of self.conv.weight.dtype, or leave the convolution out: skip=[...]."
)


def make_cuts(model: nn.Module, cuts: dict[str, Cut]) -> None:
    """Cut layers by name, in place."""
    for name, cut in cuts.items():
        module = model.get_submodule(name)
        try:
            cut_layer(module, cut)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if cut.spread:
            _spread(model, module, cut.spread)


def make_checked_cuts(model: nn.Module, cuts: dict[str, Cut], example: Any) -> tuple[Size, Size]:
    """The sizes before and after; what the model gives must be what masks would give."""
    judge, inputs, before, whole = run_in_double(model, example)
    check_output(model, whole)
    expected = run_masked(judge, cuts, inputs)
    make_cuts(model, cuts)
    make_cuts(judge, cuts)
    try:
        after, output = run_measured(model, example)
        same, wrong, fix = shapes(output) == shapes(whole), "the output has another shape", FIXED
        smaller = run_once(judge, inputs)
    except (RuntimeError, ValueError, IndexError, AttributeError, TypeError) as error:
        same, wrong = False, str(error).splitlines()[0].removesuffix(".")
        spreads = any(cut.spread for cut in cuts.values())
        fix = WRAPPED if spreads and isinstance(error, AttributeError) else FIXED
    if not same:
        raise ValueError(f"the model does not run with fewer channels: {wrong}. {fix}")
    if not agree(smaller, expected, whole):
        raise ValueError(
            "the smaller model does not give what the whole one gives with the removed channels "
            "set to zero: its forward depends on their number or places, or on chance. Write it "
            "without, or leave the convolutions before that out: skip=[...]."
        )
    return before, after


def run_masked(model: nn.Module, cuts: dict[str, Cut], example: Any) -> Any:
    """What the whole model gives with the channels that go set to zero where they are read."""
    hooks = []
    for name, cut in cuts.items():
        module = model.get_submodule(name)
        if cut.inputs is not None:
            mask = partial(_mask_input, cut.inputs)
            hooks.append(module.register_forward_pre_hook(mask, with_kwargs=True))
        if cut.spread is not None:
            hooks.append(module.register_forward_hook(partial(_mask_output, cut.spread)))
    try:
        return run_measured(model, example)[1]
    finally:
        for hook in hooks:
            hook.remove()


def _mask_input(
    kept: Kept, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if args:
        return (_mask(kept, args[0]), *args[1:]), kwargs
    return args, kwargs | {"input": _mask(kept, kwargs["input"])}


def _mask_output(kept: Kept, module: nn.Module, inputs: tuple[Any, ...], y: Tensor) -> Tensor:
    return _mask(kept, y)


def _mask(kept: Kept, x: Tensor) -> Tensor:
    mask = x.new_zeros(kept.of)
    mask[list(kept.places)] = 1
    return x * mask.reshape(-1, *[1] * (x.ndim - 2))


def _spread(model: nn.Module, module: nn.Module, kept: Kept) -> None:
    near = next((t for t in (*module.parameters(), *module.buffers())), None)
    near = next(model.parameters()) if near is None else near
    added = Spread(*kept, device=near.device)
    both = nn.Sequential()
    both.add_module(LAYER, module)
    both.add_module(SPREAD, added)
    both.training = added.training = module.training
    for parent in list(model.modules()):
        for name, child in parent._modules.items():
            if child is module and parent is not both:
                parent._modules[name] = both


def compose_cuts(
    first: dict[str, Cut], then: dict[str, Cut], plain: dict[str, str]
) -> dict[str, Cut]:
    """The cuts of the whole model, if ``then`` cuts what ``first`` has left of it."""
    spread = {f"{name}.{SPREAD}": name for name, cut in first.items() if cut.spread}
    composed = dict(first)
    for name, cut in then.items():
        whole = spread.get(name, plain[name])
        if name in spread:  # it takes in what the layer before it gives out
            cut = Cut(outputs=cut.inputs, spread=cut.inputs)
        elif whole in spread.values():
            cut = Cut(inputs=cut.inputs)
        composed[whole] = composed.get(whole, Cut()).then(cut)
    return composed


def plain_names(model: nn.Module) -> dict[str, str]:
    """The names of layers in the whole model, by those in a pruned one."""
    names = dict(model.named_modules())
    spread = {n.removesuffix(f".{SPREAD}") for n, m in names.items() if isinstance(m, Spread)}
    plain = {n: n.removesuffix(f".{LAYER}") for n in names}
    return {n: p if p in spread else n for n, p in plain.items()}
