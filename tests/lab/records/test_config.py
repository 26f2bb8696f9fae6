"""What a run may be: every field of its record has a range."""

import json
import re
from dataclasses import fields

import pytest

from padenet.cli import main
from padenet.lab.records.config import Config, check_read

NAN, INF = float("nan"), float("inf")
WRONG = {
    **dict.fromkeys(("dataset", "net", "activation"), ("", "a/b", "a b", None)),
    "seed": (-1, 2**63, 0.5, True, None, "0"),
    "label": ("a/b", "a-b", None),
    "epochs": (0, -3, 1.5, INF, True, None),
    "batch_size": (0, 64.0, None),
    "augment": ("flip", None),
    "precision": ("fp16", ""),
    "optimizer": ("adm", None),
    "lr": (0.0, -0.1, NAN, INF, "0.1", True, None),
    "momentum": (-0.1, 1.0, 2.0, NAN, INF, None),
    "weight_decay": (-1e-9, NAN, INF, None),
    "lr_decay": (0.0, -1.0, NAN, INF, None),
    "lr_every": (0, 2.5, None),
    "clip_norm": (0.0, -1.0, NAN, INF, "1"),
    "start": ("lreu", "", None),
    "aim": ("wdie", ""),
    "form": ("sfae", None),
    "alpha": (-0.1, 1.1, NAN, None),
    "coefficient_lr": (-0.1, NAN, INF, False),
    "coefficient_clip": (0.0, -1.0, NAN, INF),
    "stabilize": (0.0, -0.1, NAN, INF),
    "coefficient_floor": (0.0, 1.0, -0.1, NAN),
}
RIGHT = {
    "dataset": ("fashion-mnist", "my_set"),
    "seed": (0, 2**63 - 1),
    "label": ("", "lr0.1+x_y"),
    "epochs": (1,),
    "lr": (1, 1e-30),
    "momentum": (0, 0.0, 0.999),
    "weight_decay": (0, 5e-4),
    "lr_decay": (1, 0.1),
    "clip_norm": (None, 1, 0.01),
    "start": ("silu", "paper_lrelu"),
    "form": ("offset",),
    "alpha": (0, 1.0),
    "coefficient_lr": (None, 0.0),
    "aim": (None, "steady"),
    "stabilize": (None, 0.01),
    "coefficient_floor": (None, 0.5),
}


def test_every_field_has_a_range():
    assert list(WRONG) == [f.name for f in fields(Config)]
    for name, values in WRONG.items():
        for value in values:
            with pytest.raises(ValueError, match=rf"{name}\b.*{re.escape(str(value))}"):
                Config(**{name: value})
    for name, values in RIGHT.items():
        for value in values:
            assert getattr(Config(**{name: value}), name) == value


@pytest.mark.parametrize(
    "field, value, message",
    [
        ("optimizer", "adm", "Did you mean 'adam'"),
        ("precision", "fp16", "Known: fp32, tf32, bf16"),
        ("augment", "flip", "crop-flip"),
        ("epochs", 0, r"epochs=0 must be at least 1\."),
        ("epochs", 1.5, r"epochs=1.5 must be a whole number\."),
        ("lr", INF, r"lr=inf must be a finite number above 0\."),
        ("lr", "0.1", r"lr='0.1' must be a number\."),
        ("momentum", 2.0, r"momentum=2.0 must be in \[0, 1\), such as 0.9"),
        ("clip_norm", 0.0, r"clip_norm=0.0 must be .* above 0, or None for no limit\."),
        ("label", "a/b", "letters, digits"),
        ("start", "lreu", "Did you mean 'l?relu'"),
        ("form", "sfae", "Did you mean 'safe'"),
    ],
)
def test_a_wrong_value_is_refused_with_the_fix(field, value, message):
    with pytest.raises(ValueError, match=message):
        Config(**{field: value})


def test_json_and_back():
    config = Config(net="vgg", coefficient_lr=0.001, label="slow")
    assert Config.from_dict(json.loads(config.to_json())) == config
    with pytest.raises(ValueError, match="Did you mean 'epochs'"):
        Config.from_dict({"epoch": 3})


def test_names_tell_runs_apart():
    assert Config(seed=3).name == "digits-lenet-pau-s3"
    assert Config(label="lr0.1").name == "digits-lenet-pau-lr0.1-s0"


def test_a_name_must_fit_a_directory():
    assert len(Config(label="x" * 235).name) == 255
    for label in ("x" * 236, "ä" * 118):
        with pytest.raises(ValueError, match=rf"label='{label}' .* 256 bytes .* shorter"):
            Config(label=label)


@pytest.mark.parametrize(
    "command, says",
    [
        (["--activation", "relu", "--alpha", "0.5"], "alpha=0.5 .* for activation rpau, not relu"),
        (["--activation", "pau", "--alpha", "0.5"], "alpha=0.5 .* for activation rpau, not pau"),
        (["--activation", "elu", "--stabilize", "0.2"], "stabilize=0.2 .* pau and rpau, not"),
        (["--optimizer", "adam", "--momentum", "0.9"], "momentum=0.9 .* for optimizer sgd, not"),
    ],
)
def test_a_value_that_no_run_reads_is_refused(tmp_path, capsys, command, says):
    assert main(["train", *command, "--out", str(tmp_path / "out")]) == 2
    assert re.search(f"{says}.*Leave it out", capsys.readouterr().err)
    assert not (tmp_path / "out").exists()


def test_a_value_that_some_run_reads_is_taken():
    relu, pau = Config(activation="relu"), Config(activation="pau")
    check_read([relu, pau], {"stabilize": 0.2, "lr": 0.1})
    check_read([relu], {"stabilize": None, "alpha": 0.01})  # as without them
    with pytest.raises(ValueError, match="form='free' has no effect"):
        check_read([relu], {"form": "free"})
    assert Config(activation="relu", stabilize=0.1).stabilize == 0.1
