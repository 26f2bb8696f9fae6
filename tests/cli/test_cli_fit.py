"""The command fit: what it prints, writes and refuses."""

import errno
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from commands import fails, run

import padenet
from padenet.cli import main
from padenet.core.starting.starts import STARTS
from padenet.core.starting.targets import TARGETS

pytestmark = [
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
]


SMALL = ["--degrees", 3, 2, "--interval", -2, 2]


@pytest.fixture(scope="module")
def tanh():
    return padenet.fit(TARGETS["tanh"], (3, 2), interval=(-2, 2))


def test_fit_text(capsys, tanh):
    lines = run(capsys, "fit", "tanh", *SMALL).splitlines()
    assert lines[0] == "tanh on [-2, 2], aim near, degrees (3, 2), form safe"
    inside = f"rms error {tanh.rms:.3e}, max error {tanh.max_error:.3e}"
    assert lines[1] == f"{inside}, on [-6.667, 6.667] {tanh.far_error:.3e}"
    numbers = re.search(r"a = \[(.*)\]", lines[2]).group(1).split(",")
    assert [float(v) for v in numbers] == pytest.approx(tanh.a, rel=1e-11)
    assert lines[4].startswith("F(x) = (")


def test_fit_json(capsys, tanh, tmp_path):
    record = json.loads(run(capsys, "fit", "tanh", *SMALL, "--style", "json"))
    assert record.pop("target") == "tanh"
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
    assert padenet.Fit(**values) == tanh
    file = tmp_path / "fit.json"
    assert run(capsys, "fit", "tanh", *SMALL, "--style", "json", "--out", file) == f"wrote {file}\n"
    assert json.loads(file.read_text(encoding="utf-8"))["rms"] == tanh.rms


def test_fit_aim(capsys):
    given = {"wide": [], "steady": ["--aim", "steady"], "near": ["--norm", "max"]}
    silu = ["fit", "silu", "--degrees", 3, 2, "--style", "json"]
    for aim, options in given.items():
        record = json.loads(run(capsys, *silu, *options))
        assert record["aim"] == aim
        found = padenet.fit(TARGETS["swish"], (3, 2), norm=record["norm"], aim=aim)
        assert record["far_error"] == found.far_error
    assert "unknown aim 'naer'. Did you mean 'near'?" in fails(capsys, *silu, "--aim", "naer")


def test_fit_sources(capsys, tanh):
    source = run(capsys, "fit", "tanh", *SMALL, "--style", "python")
    assert source.startswith("# tanh on [-2, 2]") and f"max error {tanh.max_error:.3e}" in source
    space = {}
    exec(source, space)
    x = np.linspace(-2, 2, 20001)
    error = space["pau"](x) - np.tanh(x)
    assert np.abs(error).max() == pytest.approx(tanh.max_error, rel=1e-6)
    source = run(capsys, "fit", "tanh", *SMALL, "--style", "c")
    assert source.startswith("// tanh on") and "double pau(double x)" in source
    source = run(capsys, "fit", "tanh", *SMALL, "--style", "latex")
    assert source.startswith("% tanh on") and r"\frac" in source


def test_fit_of_a_table_with_plot(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    x = np.linspace(-1, 1, 41)
    file = tmp_path / "half.csv"
    file.write_text("x,y\n" + "".join(f"{u},{u / 2}\n" for u in x), encoding="utf-8")
    options = ["--degrees", 1, 0, "--style", "json", "--plot", tmp_path / "fit.png"]
    out = run(capsys, "fit", "--table", file, *options)
    record = json.loads(out)
    assert record["target"] == "half" and record["interval"] == [-1, 1]
    assert record["a"] == pytest.approx([0, 0.5], abs=1e-14)
    assert (tmp_path / "fit.png").read_bytes()[:4] == b"\x89PNG"


def test_fit_norm_form_and_alias(capsys):
    small = ["--degrees", 2, 1, "--interval", -1, 1, "--style", "json"]
    record = json.loads(run(capsys, "fit", "silu", *small, "--norm", "max", "--form", "free"))
    assert (record["target"], record["norm"], record["form"]) == ("swish", "max", "free")
    record = json.loads(run(capsys, "fit", "tanh", *small, "--q", 0.5))
    assert (record["target"], record["q"]) == ("tanh", 0.5)


def test_a_stored_start_is_written_as_it_is(capsys, tmp_path):
    start = STARTS["paper_relu"]
    record = json.loads(run(capsys, "fit", "paper_relu", "--style", "json"))
    assert (record["target"], tuple(record["a"]), tuple(record["b"])) == (
        start.name,
        start.a,
        start.b,
    )
    assert (record["form"], record["rms"], record["aim"]) == (start.form, start.rms, "paper")
    x = np.linspace(-3, 3, 20001)
    space = {}
    exec(run(capsys, "fit", "paper_relu", "--style", "python"), space)
    error = np.abs(space["pau"](x) - np.maximum(x, 0)).max()
    assert error == pytest.approx(start.max_error, rel=1e-5)  # stored with six digits
    said = fails(capsys, "fit", "paper_relu", "--degrees", 3, 2, "--q", 0.5)
    assert "--degrees, --q cannot change it. Leave that out, or fit 'relu'." in said
    pytest.importorskip("matplotlib")
    run(capsys, "fit", "paper_relu", "--plot", tmp_path / "fit.png")


def test_a_long_search_says_so_and_can_be_stopped(capsys, monkeypatch):
    monkeypatch.setattr("padenet.cli.fit.WORD_AFTER", 0.0)
    assert main(["fit", "tanh", *map(str, SMALL)]) == 0
    assert "searching for 0 s" in capsys.readouterr().err

    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("padenet.cli.fit.WORD_AFTER", 60.0)
    monkeypatch.setattr(sys.modules["padenet.core.fitting"], "search", stopped)
    assert main(["fit", "tanh"]) == 130
    assert capsys.readouterr().err == "padenet: interrupted.\n"


def test_fit_errors(capsys, tmp_path):
    assert "unknown target 'gleu'. Did you mean 'gelu'?" in fails(capsys, "fit", "gleu")
    assert "unknown target 'GELU'. Did you mean 'gelu'?" in fails(capsys, "fit", "GELU")
    assert "nothing to fit" in fails(capsys, "fit")
    assert "unknown form 'sfae'" in fails(capsys, "fit", "tanh", "--form", "sfae")
    assert "No such file" in fails(capsys, "fit", "--table", tmp_path / "none.csv")
    file = tmp_path / "bad.csv"
    file.write_text("1,2\n3;x\n", encoding="utf-8")
    assert "bad.csv, line 2: '3;x' is not two numbers" in fails(capsys, "fit", "--table", file)
    assert "both a target, 'tanh', and a table" in fails(capsys, "fit", "tanh", "--table", file)
    assert "names no format" in fails(
        capsys, "fit", "tanh", *SMALL, "--plot", tmp_path / "figure.doc"
    )


@pytest.mark.parametrize(
    "options, said",
    [
        (["--degrees", 100, 100], r"degrees=\(100, 100\) are more .*: at most 32"),
        (["--interval", 0, 1e300], r"looks at \[0, 1e\+300\], .* too large .* within ±1e\+58"),
        (["--interval", 0, 1e-300], r"looks at \[0, 1e-300\], .* too small .* and 2e-58 apart"),
        (["--interval", "-1.7e308", 1.7e308], r"must be finite with low < high"),
        (["--interval", 1e10, 1e10 + 1], r"no fit of degrees .* on \[10000000000, 10000000001\]"),
    ],
)
def test_fits_that_float64_cannot_do(capsys, options, said):
    """Once warnings of NumPy, F = 0/1 or 1e29 off, with exit code 0; or minutes of silence."""
    assert re.search(said, fails(capsys, "fit", "gelu", *options))


@pytest.mark.parametrize(
    "content, said",
    [
        (b"1,2\n", "table.csv: the table f has 1 distinct x"),
        (b"".join(b"%d,nan\n" % i for i in range(20)), "table.csv: the table f has nan at x=0"),
        (b"".join(b"%d,%de200\n" % (i, i) for i in range(20)), "values up to 1.9e+201, too large"),
        (b"\xff\xfe\x00", "table.csv is no text"),
        (b"", "table.csv has no lines"),
    ],
)
def test_a_bad_table_is_named(capsys, tmp_path, content, said):
    file = tmp_path / "table.csv"
    file.write_bytes(content)
    message = fails(capsys, "fit", "--table", file)
    assert said in message and str(file) in message


def test_out_that_is_no_file(capsys, tmp_path, monkeypatch):
    """Told before the search, which may take long."""
    monkeypatch.setattr(sys.modules["padenet.core.fitting"], "search", None)
    for place in ("/", ".", tmp_path):
        said = fails(capsys, "fit", "tanh", "--out", place)
        assert f"{place} cannot be written: it is a directory. Name a file." in said
    assert "nowhere is not a directory" in fails(
        capsys, "fit", "tanh", "--out", tmp_path / "nowhere" / "fit.txt"
    )
    monkeypatch.undo()

    def refuse(path, *args, **options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "write_text", refuse)
    said = fails(capsys, "fit", "tanh", *SMALL, "--out", tmp_path / "fit.txt")
    assert f"Permission denied: '{tmp_path / 'fit.txt'}'" in said  # not the temporary name
