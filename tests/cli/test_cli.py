"""The command line: help, exit codes, and the commands inspect and plot."""

import json
import re
import subprocess
import sys

import pytest
import torch
from commands import fails, run
from torch import nn

import padenet
from padenet.cli import COMMANDS, main
from padenet.core.starting.starts import STARTS

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


@pytest.mark.parametrize("name", COMMANDS)
def test_help(capsys, name):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    assert f"usage: padenet {name}" in capsys.readouterr().out


def test_list_of_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"^ +{name} +[A-Z]", text, re.M) for name in COMMANDS)
    with pytest.raises(SystemExit) as stop:
        main(["no-such-command"])
    assert stop.value.code == 2


def test_help_needs_no_extras(capsys, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "scipy", "PIL", "rich"):
        monkeypatch.setitem(sys.modules, name, None)  # its import would fail
    with pytest.raises(SystemExit) as stop:
        main(["fit", "--help"])
    assert stop.value.code == 0
    assert "pip install 'padenet[plots]'" in fails(capsys, "plot", "starts", "--out", "never.png")


def save_model(path, wrap=lambda state: state, **options):
    model = nn.Sequential(nn.Linear(2, 4), padenet.PAU("gelu", **options), nn.Linear(4, 1))
    model.add_module("out", padenet.PAU("tanh", **options))
    torch.save(wrap(model.state_dict()), path)
    return model


def facts_of(capsys, path, *options):
    return json.loads(run(capsys, "inspect", path, "--json", *options))["units"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"epoch": 3, "model": state, "optimizer": {"state": {0: {"step": 1}}}},
        lambda state: {"runs": [{"best": {"net": dict(state)}}, 5, "text"]},
    ],
)
def test_inspect_finds_units(capsys, tmp_path, wrap):
    save_model(tmp_path / "model.pt", wrap)
    first, second = facts_of(capsys, tmp_path / "model.pt")
    assert (first["name"], first["group"], first["closest"]) == ("1", None, "gelu")
    assert (second["name"], second["closest"]) == ("out", "tanh")
    expected = padenet.describe(padenet.PAU("gelu"))
    assert first["lipschitz"] == expected.lipschitz and first["zeros"] == list(expected.zeros)
    assert first["left"] == {"power": 1, "factor": expected.left.factor}
    assert first["minima"] == [{"x": p.x, "y": p.y} for p in expected.minima]
    assert first["interval"] == [-3, 3] and first["gain"] == expected.gain


def test_inspect_two_models_groups_and_patterns(capsys, tmp_path):
    file = tmp_path / "model.pt"
    save_model(file, lambda state: {"model": state, "average": state}, groups=2)
    units = facts_of(capsys, file)
    assert len(units) == 8 and units[1]["group"] == 1
    assert {u["name"] for u in units} == {"model/1", "model/out", "average/1", "average/out"}
    assert len(facts_of(capsys, file, "--units", "model/o*")) == 2
    assert "no unit fits 'x*'. There are: model/1" in fails(
        capsys, "inspect", file, "--units", "x*"
    )
    assert "model/out[1]" in run(capsys, "inspect", file)


def test_inspect_shows_the_cost(capsys, tmp_path):
    save_model(tmp_path / "model.pt", lambda state: state, groups=2)
    assert {
        (u["parameters"], u["operations"]) for u in facts_of(capsys, tmp_path / "model.pt")
    } == {(20, 22)}
    head, line, *_ = run(capsys, "inspect", tmp_path / "model.pt").splitlines()
    assert head.split()[-2:] == ["params", "ops"] and line.split()[-2:] == ["20", "22"]


def test_inspect_free_form_and_interval(capsys, tmp_path):
    unit = padenet.PAU(([1.0], [0.0, -1.0]), degrees=(0, 2), form="free")
    torch.save(unit.state_dict(), tmp_path / "unit.pt")
    (facts,) = facts_of(capsys, tmp_path / "unit.pt", "--form", "free")
    assert facts["name"] == "PAU" and facts["lipschitz"] is None  # infinite
    assert facts["poles"] == pytest.approx([-1, 1])
    text = run(capsys, "inspect", tmp_path / "unit.pt", "--form", "free")
    assert "poles" in text.splitlines()[0] and "-1 1" in text.splitlines()[1]
    (facts,) = facts_of(capsys, tmp_path / "unit.pt", "--form", "free", "--interval", "-0.5", "0.5")
    assert facts["poles"] == [] and facts["interval"] == [-0.5, 0.5]


def test_inspect_a_unit_that_has_diverged(capsys, tmp_path):
    model = save_model(tmp_path / "model.pt")
    with torch.no_grad():
        model[1].b[2] = torch.nan
    torch.save(model.state_dict(), tmp_path / "model.pt")
    bad, good = facts_of(capsys, tmp_path / "model.pt")
    costs = {"parameters": 10, "operations": 22}
    assert bad == {"name": "1", "group": None, "finite": False, **costs}
    assert good["finite"] and good["closest"] == "tanh"
    assert "not finite" in run(capsys, "inspect", tmp_path / "model.pt").splitlines()[1]


def test_inspect_starts(capsys):
    lines = run(capsys, "inspect", "starts").splitlines()
    assert [line.split()[0] for line in lines] == ["unit", *STARTS]
    row = next(line for line in lines if line.startswith("relu "))
    assert row.split()[1:3] == ["relu", "5.6e-03"] and "1.4148" in row
    lines = run(capsys, "inspect", "starts", "--aim", "near").splitlines()
    names = [name for name in STARTS if "paper" not in name]
    assert [line.split()[0] for line in lines] == ["unit", *names]
    row = next(line for line in lines if line.startswith("relu "))
    assert row.split()[1:3] == ["relu", "5.6e-03"] and "1.4148" in row
    assert "unknown aim 'naer'" in fails(capsys, "inspect", "starts", "--aim", "naer")


def test_inspect_errors(capsys, tmp_path):
    file = tmp_path / "file.pt"
    torch.save(nn.Linear(2, 2).state_dict(), file)
    assert "has no units" in fails(capsys, "inspect", file)
    torch.save(nn.Linear(2, 2), file)
    assert "Save the state dict" in fails(capsys, "inspect", file)
    file.write_bytes(b"nothing")
    assert "is no checkpoint of tensors" in fails(capsys, "inspect", file)
    assert "No such file" in fails(capsys, "inspect", tmp_path / "none.pt")
    for command in (["inspect"], ["plot", "--out", tmp_path / "never.png"]):
        said = fails(capsys, *command, "starts", "--form", "free")
        assert "form='free' is about a checkpoint, not starts. Leave it out." in said
    said = fails(capsys, "inspect", "starts", "--interval", 0, 1e300)
    assert "goes beyond ±2e+26, where powers of x are too large" in said
    with pytest.raises(SystemExit, match="2"):
        main(["plot", "starts", "--out", "never.png", "--columns", "0"])
    assert "0 is not at least 1" in capsys.readouterr().err
    aim = ["--aim", "near"]
    assert "aim='near' is about the stored starts" in fails(capsys, "inspect", file, *aim)


def test_plot(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    save_model(tmp_path / "model.pt")
    out = tmp_path / "units.png"
    assert run(capsys, "plot", tmp_path / "model.pt", "--out", out) == f"wrote {out}\n"
    assert out.read_bytes()[:4] == b"\x89PNG"
    assert "wrote" in run(capsys, "plot", "starts", "--out", tmp_path / "starts.svg")
    svg = (tmp_path / "starts.svg").read_text(encoding="utf-8")
    assert svg.count('<g id="axes_') == sum("paper" not in name for name in STARTS)
    run(capsys, "plot", "starts", "--aim", "steady", "--out", tmp_path / "steady.svg")
    assert (tmp_path / "steady.svg").read_text(encoding="utf-8") != svg
    run(capsys, "inspect", tmp_path / "model.pt", "--plot", tmp_path / "other.png")
    assert (tmp_path / "other.png").exists()
    assert "names no format" in fails(capsys, "plot", "starts", "--out", tmp_path / "a.b")


def test_a_reader_may_have_seen_enough(tmp_path):
    command = [sys.executable, "-m", "padenet", "data", "list", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


def test_more_threads_than_a_system_starts_are_refused(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["train", "--threads", "100000"])
    assert stop.value.code == 2 and "100000 is more than" in capsys.readouterr().err
