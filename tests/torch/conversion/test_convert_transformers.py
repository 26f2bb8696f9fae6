"""``convert`` on models of transformers, small and random: what becomes a unit and what stays."""

import pytest
import torch
from networks import units_of

import padenet

transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore"),
]

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
TEXT = {"vocab_size": 50, "max_position_embeddings": 16, **SIZES}
IMAGE = {"image_size": 8, "patch_size": 4, **SIZES}


def words():
    return torch.arange(16).reshape(2, 8)


def pictures(size=8):
    return torch.linspace(-1, 1, 2 * 3 * size**2).reshape(2, 3, size, size).double()


GPT2 = {"vocab_size": 50, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
T5 = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
EFFICIENT = {
    "image_size": 32,
    "width_coefficient": 0.25,
    "depth_coefficient": 0.3,
    "hidden_dim": 320,
}
NEXT = {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "drop_path_rate": 0.5}

# model, its settings, its input, (what was, how many) replaced, the ends of the names left
MODELS = {
    "bert": ("BertForSequenceClassification", "BertConfig", TEXT, ("GELUActivation", 2), 1, []),
    "bert body": ("BertModel", "BertConfig", TEXT, ("GELUActivation", 2), 0, ["pooler.activation"]),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2, ("NewGELUActivation", 2), 0, []),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        {**TEXT, "num_key_value_heads": 2},
        ("SiLUActivation", 2),
        0,
        [],
    ),
    "vit": ("ViTForImageClassification", "ViTConfig", IMAGE, ("GELUActivation", 2), 0, []),
    "efficientnet": (
        "EfficientNetForImageClassification",
        "EfficientNetConfig",
        EFFICIENT,
        ("SiLU", 25),
        0,
        ["act_expand"] * 8,
    ),
    "convnext": ("ConvNextModel", "ConvNextConfig", NEXT, ("GELUActivation", 2), 0, []),
}


def make(name):
    torch.manual_seed(0)
    model, config, settings, *_ = MODELS[name]
    torch.manual_seed(0)
    return getattr(transformers, model)(getattr(transformers, config)(**settings)).double().eval()


def given(name):
    if name == "efficientnet":
        return pictures(32)
    return pictures() if name in ("vit", "convnext") else words()


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    """Every hidden activation, no gate and no output; the model computes what it did."""
    *_, (was, count), others, left = MODELS[name]
    model = make(name)
    new, report = padenet.convert(model, aim="near")
    assert sum(r.was == was for r in report.replaced) == count, report
    assert len(report.replaced) == count + others
    assert len(report.left) == len(left), report
    assert all(e.name.endswith(end) for e, end in zip(report.left, left, strict=True))
    assert units_of(new).keys() == {r.name for r in report.replaced}
    x = given(name)
    seen = []
    for unit in units_of(new).values():
        unit.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        y, z = (next(iter(m(x).values())) for m in (model, new))
    assert len(seen) == len(report.replaced)
    assert float((y - z).norm()) < 0.02 * float(y.norm()) + 1e-6  # the errors of the starts


def test_quick_gelu_is_one_unit():
    pytest.importorskip("scipy")
    config = transformers.CLIPVisionConfig(**IMAGE)
    new, report = padenet.convert(transformers.CLIPVisionModel(config))
    assert [r.was for r in report.replaced] == ["QuickGELUActivation(1.702)"] * 2
    assert not report.left
    new(pictures().float())


def test_drop_path_draws():
    """ConvNeXt's stochastic depth, in training."""
    new, _ = padenet.convert(make("convnext"))
    new.train()
    x = pictures()
    found = {tuple(new(x).last_hidden_state.flatten().tolist()) for _ in range(12)}
    assert len(found) > 1
