"""``padenet.exchange``: dicts and files, what is checked, and the frameworks of this process."""

import json

import numpy as np
import pytest
import torch

import padenet
import padenet.numpy
from padenet import PAU, RPAU, exchange
from padenet.core import FORMS


def units():
    torch.manual_seed(0)
    found = [PAU(form=f, groups=g) for f in FORMS for g in (1, 2)]
    found += [RPAU("tanh", alpha=0.25), PAU(q=0.5), PAU("gelu", degrees=(3, 2), channel_dim=-1)]
    with torch.no_grad():
        for unit in found:
            unit.a.add_(torch.randn_like(unit.a) / 7)
    return found


@pytest.mark.parametrize("unit", units(), ids=repr)
def test_a_record_is_the_unit(unit):
    record = exchange.to_dict(unit)
    assert json.loads(json.dumps(record)) == record
    made = exchange.from_dict(record, type(unit))
    assert torch.equal(made.a, unit.a) and torch.equal(made.b, unit.b)
    assert repr(made).replace("given", "") == repr(unit).replace(repr(unit.init), "")
    assert exchange.to_dict(made) == record
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    y = padenet.numpy.rational(
        x,
        *(np.float32(record[c]) for c in "ab"),
        form=record["form"],
        q=record["q"],
        channel_dim=record["channel_dim"],
    )
    assert np.abs(y - unit.eval()(torch.tensor(x)).detach().numpy()).max() < 1e-5


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_files(suffix, tmp_path):
    if suffix == "safetensors":
        pytest.importorskip("safetensors")
    path = tmp_path / f"units.{suffix}"
    for given in (units()[0], {"one": units()[1], "two.three": units()[-3]}):
        exchange.save(given, path)
        found = exchange.load(path)
        if isinstance(given, dict):
            assert found == {name: exchange.to_dict(unit) for name, unit in given.items()}
        else:
            assert found == exchange.to_dict(given)


def test_a_unit_is_filled_if_it_is_of_the_kind():
    trained = units()[1]
    record = exchange.to_dict(trained)
    other = PAU("relu", groups=2)
    assert exchange.from_dict(record, other) is other
    assert torch.equal(other.a, trained.a)
    for wrong, words in [
        (PAU(), "groups=2.*groups=1"),
        (PAU(groups=2, form="free"), "form='safe'.*form='free'"),
        (PAU(groups=2, channel_dim=-1), "channel_dim=1.*channel_dim=-1"),
        (RPAU(groups=2), r"alpha=0\.0.*alpha=0\.01"),
    ]:
        with pytest.raises(ValueError, match=words):
            exchange.from_dict(record, wrong)
    assert exchange.from_dict(record, PAU, channel_dim=-1).channel_dim == -1


def test_what_is_wrong_is_said(tmp_path):
    record = exchange.to_dict(RPAU())
    with pytest.raises(ValueError, match=r"with noise, alpha=0\.01, which PAU has not"):
        exchange.from_dict(record, PAU)
    assert type(exchange.from_dict(record | {"alpha": 0.0}, PAU)) is PAU
    with pytest.raises(ValueError, match="the record has no form"):
        exchange.from_dict({}, PAU)
    with pytest.raises(ValueError, match="unknown form 'new'"):
        exchange.from_dict(record | {"form": "new"}, RPAU)
    with pytest.raises(ValueError, match=r"says degrees=\[5, 5\]"):
        exchange.from_dict(record | {"degrees": [5, 5]}, RPAU)
    with pytest.raises(ValueError, match="has version 9"):
        exchange.from_dict(record | {"padenet": 9}, RPAU)
    with pytest.raises(TypeError, match="Linear is no unit"):
        exchange.to_dict(torch.nn.Linear(1, 1))
    with pytest.raises(ValueError, match=r"must end in \.json or \.safetensors"):
        exchange.save(PAU(), tmp_path / "units.pt")
    with pytest.raises(TypeError, match="rngs: for a class"):
        exchange.from_dict(record, RPAU(), rngs=0)


@pytest.mark.parametrize("library", ["flax", "equinox"])
@pytest.mark.parametrize("unit", units(), ids=repr)
def test_units_of_jax(unit, library):
    pytest.importorskip(library)
    from importlib import import_module

    jax = pytest.importorskip("jax")
    classes = import_module(f"padenet.jax.{library}")
    kind = classes.RPAU if isinstance(unit, RPAU) else classes.PAU
    record = exchange.to_dict(unit)
    there = exchange.from_dict(record, kind)
    assert exchange.to_dict(there) == record
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    quiet = {"inference": True} if library == "equinox" else {"deterministic": True}
    y = there(jax.numpy.asarray(x), **quiet if isinstance(unit, RPAU) else {})
    want = unit.eval().double()(torch.tensor(x).double()).detach().numpy()
    assert np.abs(np.asarray(y) - want).max() <= 64 * 2.0**-24 * np.abs(want).max()
    if library == "flax":
        start = kind(
            "tanh",
            degrees=unit.degrees,
            **{k: record[k] for k in ("form", "q", "groups", "channel_dim")},
            **({"alpha": 0.25} if record["alpha"] else {}),
        )
        exchange.from_dict(record, start)
        assert exchange.to_dict(start) == record
