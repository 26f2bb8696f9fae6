"""Units whose ``groups`` may divide tokens: those that follow ``nn.Linear``.

Their channels are the last dim. In a plain (batch, channels) that is dim 1, the default, but not in
(batch, tokens, channels).
"""

from collections.abc import Iterator

from torch import nn

from padenet.torch.conversion.meaning.roles import Net
from padenet.torch.conversion.places import Place
from padenet.torch.conversion.reading.values import Value, has_data

LAYERS = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)
LAST = (nn.Linear, nn.LayerNorm, nn.Bilinear, *LAYERS)
SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.Transformer, *LAYERS)
POOLS = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
SHAPERS = {"view", "reshape", "flatten", "unflatten", "permute", "transpose", "movedim", "squeeze"}
REDUCTIONS = {
    "mean",
    "sum",
    "amax",
    "amin",
    "max",
    "min",
    "logsumexp",
    "flatten",
    "Flatten",
    "squeeze",
}
NOTE = "groups divide dim 1, which is the tokens in (batch, tokens, channels): then channel_dim=-1"
DIVIDED = "groups divide dim 1, which is not the channels here but the tokens: give channel_dim=-1"


def told_of_groups(place: Place, net: Net) -> str:
    """``DIVIDED``, ``NOTE`` where its input may be (batch, channels), or ""."""
    if isinstance(place.holder, LAYERS):
        return DIVIDED
    leaves = [site.leaf for site in place.sites]
    if not any(_is_last(v) for leaf in leaves for v in _makers(leaf, net)):
        return ""
    return DIVIDED if any(_is_sequence(leaf, net) for leaf in leaves) else NOTE


def _makers(leaf: Value, net: Net) -> Iterator[Value]:
    """What made the dims of ``leaf``: elementwise steps, dropout, chunks and children kept them."""
    seen: set[Value] = set()
    stack = [leaf]
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        own = v.op == "call" and v.data not in net.returns
        if own or v.op in ("product", "other") or (v.op == "move" and v.data in SHAPERS):
            yield v
        else:
            stack += net.before(v)


def _is_last(maker: Value) -> bool:
    """Its channels are the last dim."""
    if maker.op == "move":  # transformers' Conv1D: a product, and the shape as it was
        return any(v.op == "product" and v.data in ("addmm", "mm") for v in maker.args)
    if maker.op == "product":
        return maker.data in ("matmul", "mm", "addmm") and maker.args[-1].op == "tensor"
    if maker.op == "other":
        return maker.data in ("linear", "layer_norm")
    return isinstance(maker.data, LAST)


def _is_sequence(leaf: Value, net: Net) -> bool:
    """Attention, a recurrent layer, or a convolution that nothing has flattened, is before it."""
    seen: set[Value] = set()
    stack = [leaf]
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        if v.op == "call" and (
            isinstance(v.data, (*SEQUENCES, *CONVOLUTIONS)) or "Attention" in type(v.data).__name__
        ):
            return True
        if v.op == "other" and v.data == "scaled_dot_product_attention":
            return True
        if v.op == "product" and sum(map(has_data, v.args)) > 1:
            return True
        if str(v.data) in REDUCTIONS or (v.op == "move" and v.data in ("view", "reshape")):
            continue
        if v.op == "call" and isinstance(v.data, POOLS):
            continue
        stack += net.before(v)
    return False
