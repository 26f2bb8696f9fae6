"""A sweep can be cut anywhere and repeated: it ends with the numbers of the runs alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import alive, is_free, numbers_of, small, trainers, wait_for

from padenet.cli import main
from padenet.lab.run.execution import Execution
from padenet.lab.run.run import train
from padenet.lab.sweep.recipes import RECIPES
from padenet.lab.sweep.recipes.finding import choose, find_runs
from padenet.lab.sweep.status import exit_code, look
from padenet.lab.sweep.sweep import sweep

CPU = Execution(device="cpu")
RUNS = """
from padenet.lab.records.config import Config

def runs():
    small = dict(epochs=2, batch_size=128)
    return [Config(activation=a, seed=s, **small) for s in (0, 1) for a in ("relu", "prelu")]
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(RUNS)
    return str(path)


def test_find_runs(recipe, tmp_path):
    assert find_runs("demo") == RECIPES["demo"]()
    assert [c.name for c in find_runs(recipe)[::3]] == [
        "digits-lenet-relu-s0",
        "digits-lenet-prelu-s1",
    ]
    with pytest.raises(ValueError, match=r"unknown recipe 'tabel2'. Did you mean 'table2'\?"):
        find_runs("tabel2")
    with pytest.raises(FileNotFoundError, match=r"none\.py is no file\. Known recipes: demo"):
        find_runs(str(tmp_path / "none.py"))


@pytest.mark.parametrize(
    "text", ["x = 1", "runs = 3", "def runs(): return None", "def runs(): return ['pau']"]
)
def test_a_file_without_runs_is_refused(tmp_path, text):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.py must define a function runs\(\)"):
        find_runs(str(path))


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "def runs():\n    return [nothing]",
            r", line 2: NameError: name 'nothing' is not defined",
        ),
        ("runs = lambda: {}['k']", r", line 1: KeyError: 'k'"),
        ("def runs(: pass", r": SyntaxError: .*wrong\.py, line 1"),
        ("\n\nimport sys; sys.exit(7)", r", line 3: SystemExit: 7"),
        ("import no_such_module", r", line 1: ModuleNotFoundError: No module"),
        (
            "from padenet.lab.records.config import Config\nruns = lambda: [Config(epoch=3)]",
            r", line 2: TypeError: .* unexpected keyword argument 'epoch'",
        ),
    ],
)
def test_an_error_in_a_file_is_told_with_its_line(tmp_path, text, said):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"wrong\.py{said}"):
        find_runs(str(path))


def test_a_file_may_import_its_neighbours(recipe, tmp_path):
    (tmp_path / "user.py").write_text("from mine import runs")
    before = list(sys.path)
    try:
        assert find_runs(str(tmp_path / "user.py")) == find_runs(recipe)
    finally:
        sys.modules.pop("mine", None)
    assert sys.path == before


def test_choose(recipe):
    runs = find_runs(recipe)
    chosen = choose(runs, "*-relu-*", {"epochs": 7, "label": "long"})
    assert [(c.name, c.epochs) for c in chosen] == [
        ("digits-lenet-relu-long-s0", 7),
        ("digits-lenet-relu-long-s1", 7),
    ]
    with pytest.raises(ValueError, match=r"digits-lenet-relu-s3 is there 2 times"):
        choose([small(seed=3), small(seed=3)])
    with pytest.raises(ValueError, match=r"only='cifar\*' fits none of 4 runs, such as digits"):
        choose(runs, "cifar*")
    with pytest.raises(ValueError, match=r"the recipe has no runs"):
        choose([])


def test_a_cut_sweep_goes_on_to_the_same_numbers(recipe, tmp_path):
    runs = find_runs(recipe)[:2]
    for _ in range(20):
        statuses = sweep(
            runs, tmp_path / "cut", Execution(device="cpu", deadline=time.time() + 0.01)
        )
        if exit_code(statuses) != 4:
            break
        assert {s.state for s in statuses} <= {"waiting", "begun", "done"}
    assert exit_code(statuses) == 0
    for config in runs:
        train(config, tmp_path / "whole" / config.name, CPU)
        cut, whole = (numbers_of(tmp_path / way / config.name) for way in ("cut", "whole"))
        assert cut == whole


def test_command(recipe, tmp_path, capsys):
    out = str(tmp_path / "out")
    args = ["sweep", recipe, "--out", out, "--device", "cpu", "--epochs", "1"]
    assert main([*args, "--dry-run", "--only", "*s0"]) == 0
    plan = capsys.readouterr().out
    assert plan.splitlines()[1].split() == ["digits-lenet-relu-s0", "waiting", "0/1"]
    assert "2 waiting" in plan and "one after the other, by a few timed steps" in plan
    assert not Path(out).exists()

    assert main([*args, "--only", "*s0"]) == 0
    first = capsys.readouterr().out
    assert first.startswith(f"2 runs in {out}: 2 waiting\n[1/2] digits-lenet-relu-s0  test")
    assert main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"4 runs in {out}: 2 done, 2 waiting"
    assert [line.split("  ")[0] for line in lines[1:3]] == [
        "[1/2] digits-lenet-relu-s1",
        "[2/2] digits-lenet-prelu-s1",
    ]
    accuracies = [look(c, out).accuracy for c in choose(find_runs(recipe), "*-relu-*")]
    assert f"relu   {sum(accuracies) / 2:.2f} ± " in lines[4] and lines[4].endswith("(2)")
    assert lines[-1] == "4 done"

    assert main([*args, "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4 done"
    for options in ([], ["--dry-run"]):
        assert main([*args[:-1], "3", *options]) == 2
        said = capsys.readouterr()
        assert "epochs is 1 there and 3 here" in said.err and said.out == ""


def test_command_says_what_failed_and_what_diverged(tmp_path, capsys):
    recipe, out = tmp_path / "mixed.py", str(tmp_path / "out")
    recipe.write_text(
        "from padenet.lab.records.config import Config\n"
        "small = dict(epochs=1, batch_size=128, activation='relu')\n"
        "runs = lambda: [Config(dataset='mnist', **small), Config(**small),\n"
        "                Config(**small, seed=1, optimizer='sgd', lr=1e30)]\n"
    )
    args = ["sweep", str(recipe), "--out", out, "--device", "cpu", "--data-dir", str(tmp_path)]
    assert main([*args, "--quiet"]) == 2
    text = capsys.readouterr().out
    assert "mnist-lenet-relu-s0  failed: FileNotFoundError: mnist is not in" in text
    assert "digits-lenet-relu-s1  diverged: train_loss is not finite in epoch 1" in text
    assert text.endswith("1 done, 1 diverged, 1 failed\n")
    assert main([*args, "--only", "digits*"]) == 3
    assert "(1), 1 diverged" in capsys.readouterr().out
    assert main([*args, "--dry-run", "--only", "mnist*"]) == 0
    assert "no estimate of the time: mnist is not in" in capsys.readouterr().out
    assert main([*args, "--only", "mnist*", "--time-limit", "0s"]) == 2  # failed before, not tried


def test_command_refuses(recipe, tmp_path, capsys):
    assert main(["sweep", "tabel2", "--out", str(tmp_path)]) == 2
    assert "unknown recipe 'tabel2'. Did you mean 'table2'?" in capsys.readouterr().err
    assert main(["sweep", recipe, "--out", str(tmp_path), "--jobs", "0"]) == 2
    assert "jobs=0" in capsys.readouterr().err
    for out in (recipe, f"{recipe}/deep/er"):
        assert main(["sweep", recipe, "--out", out]) == 2
        said = f"padenet: {out} cannot be a directory: {recipe} is a file. Name another one.\n"
        assert capsys.readouterr().err == said


def test_what_would_fail_every_run_is_refused_once(recipe, tmp_path, capsys):
    table = ["sweep", "table2", "--only", "*relu-s0", "--out", str(tmp_path / "runs")]
    assert main([*table, "--data-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "mnist is not in" in said and "padenet data fetch" in said
    imagenet = ["sweep", "imagenet", "--out", str(tmp_path / "runs")]
    assert main([*imagenet, "--data-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "imagenet: no folders train and val in" in said
    assert not any((tmp_path / "runs").iterdir())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", lambda *args, **options: os.mkdir("/dev/null/x"))
        assert main(["sweep", str(recipe), "--out", str(tmp_path / "y")]) == 2
    said = capsys.readouterr().err
    assert "y cannot be written (Not a directory)." in said and said.count("\n") == 1
    Path(recipe).write_text(RUNS.replace('"prelu"', '"relux"'))
    assert main(["sweep", str(recipe), "--out", str(tmp_path / "x"), "--dry-run"]) == 2
    assert "unknown activation 'relux'" in capsys.readouterr().err


def test_time_limit(recipe, tmp_path, capsys):
    args = ["sweep", recipe, "--out", str(tmp_path / "out"), "--device", "cpu"]
    assert main([*args, "--time-limit", "0s"]) == 4
    text = "4 waiting\nSome reached the time limit or are in use elsewhere: repeat the command.\n"
    assert capsys.readouterr().out.endswith(text)


def test_train_with_jobs(tmp_path, capsys, monkeypatch):
    args = ["train", "--out", str(tmp_path), "--epochs", "1", "--device", "cpu", "--jobs", "2"]
    assert main([*args, "--seed", "4"]) == 0
    assert capsys.readouterr().out.startswith("digits-lenet-pau-s4  test accuracy")
    assert main([*args, "--seed", "4", "4"]) == 2
    assert "digits-lenet-pau-s4 is there 2 times" in capsys.readouterr().err
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(args) == 2
    assert "torchrun shares one" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_killed_sweep_leaves_nothing_behind_and_goes_on(tmp_path):
    recipe, out = tmp_path / "mine.py", tmp_path / "out"
    Path(recipe).write_text(RUNS.replace("epochs=2, batch_size=128", "epochs=5, batch_size=16"))
    runs = find_runs(str(recipe))[:2]
    args = ["sweep", str(recipe), "--out", str(out), "--device", "cpu", "--only", "*s0"]
    command = [sys.executable, "-m", "padenet", *args, "--jobs", "2", "--threads", "1"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    held = lambda: [p for c in runs for p in trainers(out / c.name)]
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: list(out.rglob("checkpoint.pt")))
        pids = wait_for(held)
        process.kill()
    wait_for(lambda: not any(map(alive, pids)) and not held(), 30)
    wait_for(lambda: all(is_free(out / c.name) for c in runs if (out / c.name).exists()), 30)
    assert main([*args, "--quiet"]) == 0
    for config in runs:
        train(config, tmp_path / "alone" / config.name, CPU)
        assert numbers_of(out / config.name) == numbers_of(tmp_path / "alone" / config.name)
