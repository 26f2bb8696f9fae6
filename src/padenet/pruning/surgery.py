"""Cuts made in a model, and cuts of cuts."""

from typing import Any

from torch import Tensor, nn

from padenet.pruning.layers import cut_layer
from padenet.pruning.record import Cut, Size, run_measured
from padenet.pruning.spread import Spread

LAYER, SPREAD = "layer", "spread"  # names in the Sequential that takes the place of a layer


def make_cuts(model: nn.Module, cuts: dict[str, Cut]) -> None:
    """Cut layers by name, in place."""
    for name, cut in cuts.items():
        module = model.get_submodule(name)
        try:
            cut_layer(module, cut)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        if cut.spread:
            _spread(model, module, cut)


def make_checked_cuts(model: nn.Module, cuts: dict[str, Cut], example: Any) -> tuple[Size, Size]:
    """The sizes before and after; the shapes that the model gives must stay."""
    before, output = run_measured(model, example)
    shapes = _shapes(output)
    make_cuts(model, cuts)
    try:
        after, output = run_measured(model, example)
        same, wrong = _shapes(output) == shapes, "the output has another shape"
    except (RuntimeError, ValueError, IndexError) as error:
        same, wrong = False, str(error).splitlines()[0]
    if not same:
        raise ValueError(
            f"the model does not run with fewer channels: {wrong}. Its forward may contain a fixed "
            "number of them, as in x.view(-1, 9216): write x.flatten(1)."
        )
    return before, after


def _spread(model: nn.Module, module: nn.Module, cut: Cut) -> None:
    assert cut.outputs is not None
    near = next((t for t in (*module.parameters(), *module.buffers())), None)
    near = next(model.parameters()) if near is None else near
    added = Spread(*cut.outputs, device=near.device)
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
            cut = Cut(outputs=cut.inputs)
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


def _shapes(output: Any) -> Any:
    if isinstance(output, Tensor):
        return output.shape
    if isinstance(output, (tuple, list)):
        return [_shapes(o) for o in output]
    return None
