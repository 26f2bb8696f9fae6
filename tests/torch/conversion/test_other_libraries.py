"""Units from coefficients of rational_activations, and in models of Hugging Face."""

import pytest
import torch
from formula import assert_near
from networks import QUIET, images

import padenet
from padenet import convert, from_rational_activations

pytestmark = QUIET


def peer(x, a, b, version):
    """The formulas of ``rational_activations``, with b from b_1 on, in C from b_0."""
    powers = torch.stack([x**k for k in range(12)], -1)
    P = (powers[..., : len(a)] * a).sum(-1)
    terms = powers[..., 1 : len(b) + 1] * b
    if version == "A":
        return P / (1 + terms.abs().sum(-1))
    if version == "C":
        return P / (0.1 + (powers[..., : len(b)] * b).sum(-1).abs())
    return P / (1 + (terms.sum(-1) if version == "N" else terms.sum(-1).abs()))


@pytest.mark.parametrize("version", "ABCDN")
@pytest.mark.parametrize("degrees", [(5, 4), (7, 6), (3, 3)])
def test_from_rational_activations(version, degrees, gen):
    counts = (degrees[0] + 1, degrees[1] + (version == "C"))
    a, b = (torch.rand(c, generator=gen) for c in counts)
    state = {"f.0.weight": torch.ones(2), "f.1.numerator": a, "f.1.denominator": b}
    units = from_rational_activations({**state, "numerator": a, "denominator": b}, version)
    assert units.keys() == {"f.1", ""}
    unit = units["f.1"]
    assert unit.degrees == degrees
    assert torch.equal(unit.a, a) and torch.equal(unit.b, b)
    x = torch.linspace(0 if version == "N" else -3, 3, 50, dtype=torch.float64)
    assert_near(unit.double()(x), peer(x, a.double(), b.double(), version), 256)


def test_from_rational_activations_says_what_is_wrong():
    pair = {"u.numerator": torch.ones(6), "u.denominator": torch.ones(4)}
    noisy = from_rational_activations(pair, "D", unit=padenet.RPAU, alpha=0.1)["u"]
    assert type(noisy) is padenet.RPAU
    with pytest.raises(ValueError, match="unknown version 'E'"):
        from_rational_activations(pair, "E")
    with pytest.raises(ValueError, match="'u' has a numerator but no denominator"):
        from_rational_activations({"u.numerator": torch.ones(6)}, "A")
    with pytest.raises(ValueError, match="no key that ends in 'numerator'"):
        from_rational_activations({"weight": torch.ones(6)}, "A")


def test_hugging_face():
    transformers = pytest.importorskip("transformers")
    small = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
    for model, inputs in [
        (
            transformers.BertModel(transformers.BertConfig(vocab_size=50, **small)),
            {"input_ids": torch.ones(2, 4, dtype=torch.long)},
        ),
        (
            transformers.ViTModel(transformers.ViTConfig(image_size=8, patch_size=4, **small)),
            {"pixel_values": images()},
        ),
    ]:
        new, report = convert(model.eval())
        assert sum(r.start == "gelu" for r in report.replaced) == 2, report
        with torch.no_grad():
            u, v = (m(**inputs).last_hidden_state for m in (new, model))
        assert float((u - v).abs().max()) < 0.05
