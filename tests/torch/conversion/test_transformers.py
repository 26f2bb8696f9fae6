"""Hugging Face models: units from a configuration's ``hidden_act``, and by ``convert``."""

import contextlib

import pytest
import torch

import padenet
from padenet.core.starting.starts import STARTS

transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def bert(act, std=0.02):
    torch.manual_seed(0)
    more = {"vocab_size": 50, "max_position_embeddings": 16, "initializer_range": std}
    config = transformers.BertConfig(hidden_act=act, **SIZES, **more)
    return transformers.BertModel(config), torch.arange(16).reshape(2, 8)


def vit(act, std=0.02):
    torch.manual_seed(0)
    more = {"image_size": 8, "patch_size": 4, "initializer_range": std}
    config = transformers.ViTConfig(hidden_act=act, **SIZES, **more)
    return transformers.ViTModel(config), torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)


EACH = pytest.mark.parametrize("make", [bert, vit])


def units_of(model):
    return {name: m for name, m in model.named_modules() if isinstance(m, padenet.PAU)}


@pytest.fixture(autouse=True)
def _register():
    padenet.register_act2fn("pau", "gelu")


@EACH
def test_units_from_a_configuration(make):
    model, x = make("pau")
    units = units_of(model)
    assert len(units) == 2 and len({id(u.a) for u in units.values()}) == 2
    start = torch.tensor(STARTS["gelu"].a)
    assert all(torch.equal(u.a.detach(), start) for u in units.values())
    optimizer = torch.optim.AdamW(padenet.param_groups(model, lr=0.01, weight_decay=0.1))
    model(x).last_hidden_state.square().sum().backward()
    optimizer.step()
    assert all((u.a.detach() - start).abs().min() > 0 for u in units.values())
    other, _ = make("pau")
    other.load_state_dict(model.state_dict())
    same = [m.eval()(x).last_hidden_state for m in (model, other)]
    assert torch.equal(*same)


@EACH
def test_units_are_saved_and_loaded(make, tmp_path):
    model, x = make("pau")
    with torch.no_grad():
        for unit in units_of(model).values():
            unit.a.mul_(1.5)
    model.eval().save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.config.hidden_act == "pau"
    assert torch.equal(loaded(x).last_hidden_state, model(x).last_hidden_state)


@EACH
def test_units_that_a_checkpoint_lacks_begin_at_their_start(make, tmp_path):
    model, _ = make("gelu")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path, hidden_act="pau")
    start = STARTS["gelu"]
    for unit in units_of(loaded).values():
        assert torch.equal(unit.a.detach(), torch.tensor(start.a))
        assert torch.equal(unit.b.detach(), torch.tensor(start.b))


@EACH
def test_units_of_another_form_are_refused(make, tmp_path):
    make("pau")[0].save_pretrained(tmp_path)
    padenet.register_act2fn("pau", "gelu", form="abs_terms")
    with pytest.raises(ValueError, match=r"saved with form='safe'.* and has form='abs_terms' here"):
        make("pau")[0].from_pretrained(tmp_path)


@EACH
def test_a_folder_of_an_earlier_version(make, tmp_path):
    """Units without a word on what they are."""
    from safetensors.torch import load_file, save_file

    model, x = make("pau")
    with torch.no_grad():
        for unit in units_of(model).values():
            unit.a.mul_(1.5)
    model.eval().save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    state = {k: v for k, v in load_file(file).items() if not k.endswith("_extra_state")}
    save_file(state, file, metadata={"format": "pt"})
    loaded = type(model).from_pretrained(tmp_path)
    assert torch.equal(loaded(x).last_hidden_state, model(x).last_hidden_state)


def train_a_little(model):
    """So that no unit is at its start."""
    with torch.no_grad():
        for unit in units_of(model).values():
            unit.a.add_(0.1 * torch.rand_like(unit.a))
    return model.eval()


CONVERTED = {"one a layer": {}, "other": dict(form="abs_terms", degrees=(3, 2), groups=4)}


@EACH
@pytest.mark.parametrize("how", CONVERTED.values(), ids=CONVERTED)
def test_a_converted_model_comes_back(make, how, tmp_path, caplog):
    """By its class or the class that transformers finds, bit for bit. transformers writes ViT's
    layers under other names than the model's."""
    plain, x = make("gelu", std=0.2)
    saved = train_a_little(padenet.convert(plain, **how, channel_dim=-1)[0])
    saved.save_pretrained(tmp_path)
    transformers.logging.enable_propagation()
    for model in (padenet.load(tmp_path, c) for c in (type(plain), transformers.AutoModel)):
        assert type(model).__name__ == type(plain).__name__
        assert repr(model.eval()) == repr(saved)
        assert torch.equal(model(x).last_hidden_state, saved(x).last_hidden_state)
        assert torch.equal(model(x).pooler_output, saved(x).pooler_output)
    transformers.logging.disable_propagation()
    assert "UNEXPECTED" not in caplog.text
    with pytest.raises(TypeError, match=f"Give the class: .*{type(plain).__name__}"):
        padenet.load(tmp_path, plain)
    model = padenet.load(tmp_path, type(plain), dtype=torch.bfloat16)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_a_head_more_or_less(tmp_path):
    """A saved model with a head gives its base, and the other way round; tied weights too."""
    base, x = bert("gelu", std=0.2)
    torch.manual_seed(0)
    whole = transformers.BertForMaskedLM(base.config)
    for part in (whole, base):
        saved = train_a_little(padenet.convert(part, everything=True)[0])
        saved.save_pretrained(tmp_path / type(part).__name__)
        hidden = (saved if part is base else saved.bert)(x).last_hidden_state
        for kind in (transformers.BertModel, transformers.BertForMaskedLM):
            other = type(part) is not kind
            said = pytest.warns(UserWarning, match="no place for these units .*(cls|pooler)")
            with said if other else contextlib.nullcontext():
                model = padenet.load(tmp_path / type(part).__name__, kind).eval()
            inner = model if kind is transformers.BertModel else model.bert
            assert torch.equal(inner(x).last_hidden_state, hidden)
        if part is whole:
            assert torch.equal(model(x).logits, saved(x).logits)
            assert model.cls.predictions.decoder.weight is model.get_input_embeddings().weight


class Exchange(torch.overrides.TorchFunctionMode):
    """Every GELU becomes its stored start, without ``convert``."""

    done = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        known = {torch.nn.functional.gelu: "gelu"}
        if func not in known:
            return func(*args, **kwargs or {})
        self.done += 1
        start = STARTS[known[func]]
        a, b = (torch.tensor(c, dtype=args[0].dtype) for c in (start.a, start.b))
        return padenet.rational(args[0], a, b)


@EACH
def test_convert(make):
    """Every activation is listed, and nothing but the starts' errors changes the output."""
    model, x = make("gelu", std=0.2)
    model.double().eval()
    x = x if make is bert else x.double()
    new, report = padenet.convert(model)
    assert [(r.was, r.start) for r in report.replaced] == [("GELUActivation", "gelu")] * 2
    assert [(e.name, e.why) for e in report.left] == [("pooler.activation", "leaves the model")]
    assert units_of(new).keys() == {r.name for r in report.replaced}
    with torch.no_grad(), Exchange() as exchange:
        expected = model(x)
    assert exchange.done == 2
    torch.testing.assert_close(new(x).last_hidden_state, expected.last_hidden_state)
    torch.testing.assert_close(new(x).pooler_output, expected.pooler_output)


@EACH
def test_converted_units_keep_the_error_of_their_start(make):
    model, x = make("gelu", std=0.2)
    new, report = padenet.convert(model.eval())
    seen = {}
    for name, unit in units_of(new).items():
        unit.register_forward_hook(lambda _, x, y, name=name: seen.update({name: (x[0], y)}))
    new(x)
    assert seen.keys() == {r.name for r in report.replaced}
    for name, was, start, *_ in report.replaced:
        given, got = (v.detach().double() for v in seen[name])
        inside = given.abs() <= 3
        exact = torch.tanh(given) if was == "Tanh" else torch.nn.functional.gelu(given)
        error = (got - exact)[inside].abs().max()
        assert inside.any() and error <= STARTS[start].max_error + 1e-5  # float32 of size 3


@EACH
def test_converted_model_trains_and_is_loaded(make):
    model, x = make("gelu")
    new, _ = padenet.convert(model)
    before = {name: unit.a.detach().clone() for name, unit in units_of(new).items()}
    optimizer = torch.optim.AdamW(padenet.param_groups(new, lr=0.01))
    out = new(x)
    (out.last_hidden_state.square().sum() + out.pooler_output.square().sum()).backward()
    optimizer.step()
    assert all((u.a.detach() != before[name]).all() for name, u in units_of(new).items())
    other, _ = padenet.convert(make("gelu")[0])
    other.load_state_dict(new.state_dict())
    assert torch.equal(other.eval()(x).pooler_output, new.eval()(x).pooler_output)


def test_names_and_options():
    padenet.register_act2fn("pau_small", "tanh", unit=padenet.RPAU, degrees=(3, 2), alpha=0.05)
    unit = transformers.activations.ACT2FN["pau_small"]
    assert isinstance(unit, padenet.RPAU) and unit.degrees == (3, 2) and unit.alpha == 0.05
    assert transformers.activations.ACT2FN["pau_small"] is not unit
    with pytest.raises(ValueError, match="'gelu' of its own"):
        padenet.register_act2fn("gelu")
    with pytest.raises(ValueError, match="Did you mean 'gelu'"):
        padenet.register_act2fn("pau_2", "gleu")
    assert "pau_2" not in transformers.activations.ACT2FN


def test_the_trainers_own_optimizer_decays_coefficients_and_stabilize_says_so():
    model, _ = bert("pau")
    decayed = transformers.Trainer.get_decay_parameter_names(None, model)
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if (n in decayed) == kept],
            "weight_decay": decay,
        }
        for kept, decay in ((True, 0.1), (False, 0.0))
    ]
    with pytest.warns(UserWarning, match=r"coefficients of 2 units, such as .*, decay"):
        padenet.stabilize(model, torch.optim.AdamW(groups, lr=0.01))
    own = torch.optim.AdamW(padenet.param_groups(model, lr=0.01, weight_decay=0.1))
    padenet.stabilize(model, own)  # a warning would be an error


@pytest.mark.parametrize("fixed", [False, True])
def test_a_converted_model_is_exported(fixed, tmp_path):
    """Converted, calibrated, exported for any batch and length, and run by onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    model, x = bert("gelu", std=0.5)
    model, _ = padenet.convert(model.eval(), calibrate=x)
    assert len(units_of(model)) == 2
    model = padenet.freeze(model) if fixed else model
    sizes = {0: torch.export.Dim("n", min=2), 1: torch.export.Dim("length", min=2, max=16)}
    program = torch.export.export(model, (x,), dynamic_shapes={"input_ids": sizes}).module()
    other = torch.arange(20).reshape(4, 5)
    want = model(other).last_hidden_state.detach()
    torch.testing.assert_close(program(other).last_hidden_state, want, rtol=1e-4, atol=1e-5)

    torch.onnx.export(model, (x,), tmp_path / "bert.onnx", dynamo=True, verbose=False)
    path = tmp_path / "bert.onnx"
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    y = torch.from_numpy(session.run(None, {entry.name: x.numpy()})[0])
    want = model(x).last_hidden_state.detach()
    torch.testing.assert_close(y, want, rtol=1e-4, atol=1e-5)
