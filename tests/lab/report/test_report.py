"""From recorded runs to tables, figures and report.md: by value, and with runs that went wrong."""

import json
from dataclasses import replace

import numpy as np
import pytest
from runs import entries, lost, make_run, seeds, table2

from padenet.cli import main
from padenet.lab.records.packed import pack
from padenet.lab.records.run import Run
from padenet.lab.report import tables, write_report
from padenet.lab.report.cells import collect
from padenet.lab.report.facts import facts
from padenet.lab.report.figures.curves import curve, mean_curve, plot_curves
from padenet.lab.report.names import looks
from padenet.lab.report.page import embed
from padenet.lab.report.page.data import unit_records
from padenet.lab.report.tables.lost import lost_tables
from padenet.lab.report.tables.paper import paper_cell
from padenet.lab.report.tables.results import mark_best, results_tables
from padenet.lab.report.tables.settings import settings_table
from padenet.lab.report.tables.table import Column, Entry, Table


@pytest.mark.parametrize(
    "cell, printed",
    [
        (("mnist", "vgg", "relu"), (99.17, 0.10, 99.30)),
        (("mnist", "lenet", "rpau"), (99.26, 0.11, 99.42)),
        (("fashion-mnist", "vgg", "apl"), (91.41, 0.48, 92.25)),
        (("fashion-mnist", "lenet", "pau"), (90.33, 0.15, 90.62)),
        (("cifar10", "vgg8", "maxout"), (93.03, 0.11, 93.23)),
        (("cifar10", "resnet101", "swish"), (91.83, 1.61, 92.84)),
        (("cifar10", "densenet121", "lrelu"), (95.42, 0.17, 95.65)),
        (("imagenet", "mobilenetv2-imagenet", "pau"), (71.35, None, None)),
        (("imagenet", "mobilenetv2-imagenet", "swish", "test_top5"), (89.95, None, None)),
        (("mnist", "vgg", "slaf"), None),  # the paper has a dash
        (("cifar10", "densenet121", "maxout"), None),  # did not finish in time
        (("digits", "lenet", "pau"), None),
    ],
)
def test_numbers_of_the_paper(cell, printed):
    assert paper_cell(*cell) == printed


def test_the_marks_of_table_3_follow_from_its_numbers():
    names = ["relu", "lrelu", "rrelu", "maxout", "srelu", "pau", "rpau"]
    marks = {
        "vgg8": {"maxout": "•", "srelu": "○"},
        "mobilenetv2": {"rpau": "•", "rrelu": "○"},
        "resnet101": {"rpau": "•", "srelu": "○"},
        "densenet121": {"lrelu": "•", "relu": "○"},
    }
    for net, wanted in marks.items():
        cells = [paper_cell("cifar10", net, name) for name in names]
        found = mark_best([c and c.mean for c in cells])
        assert {n: m for n, m in zip(names, found, strict=True) if m} == wanted


def test_equal_digits_share_a_mark():
    assert mark_best([90.291, 90.294, 90.62, None, 89.0]) == ["○", "○", "•", "", ""]
    assert mark_best([90.0, 90.0]) == ["•", "•"]
    assert mark_best([90.0, None]) == ["", ""]  # the best of one is no news


def test_mean_std_and_best_over_seeds():
    (table,) = results_tables(collect([*seeds("relu", [90, 91, 92]), *seeds("pau", [92, 93, 97])]))
    assert entries(table, "ReLU") == ["○ 91.00 ± 1.00", "○ 92.00", "89.86 ± 0.32", "90.48"]
    assert entries(table, "PAU") == ["• 94.00 ± 2.65", "• 97.00", "90.33 ± 0.15", "90.62"]
    assert "over 3 seeds" in table.caption
    assert "diverged" not in table.caption


def test_lost_seeds_are_shown_and_not_averaged():
    runs = [*seeds("relu", [90, 90, 92]), *seeds("pau", [99, 97]), lost("pau", 2)]
    runs += [*seeds("elu", [91, 91]), lost("elu", 2, "unfinished")]
    cells = collect(runs)
    (table,) = results_tables(cells)
    # The best mean, but of survivors only: no mark.
    assert entries(table, "PAU")[:2] == ["98.00 ± 1.41 2/3 seeds; 1 diverged", "99.00"]
    assert entries(table, "ELU")[0] == "• 91.00 ± 0.00 2/3 seeds; 1 unfinished"
    assert "have no value" in table.caption
    assert "Unfinished runs are counted" in table.caption
    (gone,) = lost_tables(cells)
    assert [[e.text for e in row[:3]] for row in gone.rows] == [
        ["fashion-mnist-lenet-elu-s2", "unfinished", "0 of 2"],
        ["fashion-mnist-lenet-pau-s2", "diverged", "0 of 2"],
    ]
    assert facts(runs)["runs"] == "9 runs: 7 done, 1 diverged, 1 unfinished"


def test_facts_say_what_older_runs_did_not_record():
    def made(seed, **machine):
        run = make_run(seed=seed)
        return replace(run, result=run.result | {"machine": {"torch": "2.13.0", **machine}})

    runs = [made(0, compile=True, commit=""), made(1), made(2, compile=True, commit="")]
    found = facts(runs)
    assert (found["torch"], found["compile"]) == ("2.13.0", "True (2), not recorded (1)")
    assert "commit" not in found  # installed, not in a source tree: it has none
    runs += [made(3, compile=False), made(4)]
    assert facts(runs)["compile"] == "True (2), False (1), not recorded (2)"


def test_all_seeds_lost_and_cells_that_are_not_there():
    runs = [*seeds("relu", [90]), lost("pau", 0, stop=0), *seeds("gelu", [89, 88], net="mine")]
    runs.append(make_run("fashion-mnist", "mine", "pau", 0, epochs=2, status="failed", stop=0))
    (table,) = results_tables(collect(runs))
    assert [c.group for c in table.columns[1:]] == ["LeNet"] * 4 + ["mine"] * 2
    assert entries(table, "PAU") == [
        "– 0/1 seed; 1 diverged", "–", "90.33 ± 0.15", "90.62", "– 0/1 seed; 1 failed", "–",
    ]  # fmt: skip
    assert entries(table, "ReLU") == ["90.00 one seed", "90.00", "89.86 ± 0.32", "90.48", "–", "–"]


def test_rows_in_the_order_of_the_paper():
    runs = [r for a in ("rpau", "pau", "gelu", "swish", "relu", "apl") for r in seeds(a, [90])]
    runs += seeds("pau", [91], label="clip")
    (table,) = results_tables(collect(runs))
    names = [row[0].text for row in table.rows]
    assert names == ["ReLU", "Swish", "APL", "gelu", "PAU", "PAU (clip)", "RPAU"]
    assert entries(table, "PAU (clip)")[2:] == ["–", "–"]  # the paper has no such run


def test_top5_has_a_table_of_its_own():
    runs = [
        make_run("imagenet", "mobilenetv2-imagenet", a, accuracy=70, top5=True) for a in ("pau",)
    ]
    top1, top5 = results_tables(collect(runs))
    assert top5.name == "results-imagenet-top5"
    assert entries(top1, "PAU")[2] == "71.35"
    assert entries(top5, "PAU")[2] == "89.85"
    assert float(entries(top5, "PAU")[0]) == pytest.approx(75, abs=1)  # as make_run adds 5


def test_runs_of_a_cell_must_agree():
    runs = [make_run(seed=0, epochs=2), make_run(seed=1, epochs=3)]
    with pytest.raises(ValueError, match=r"s0 and .*s1 .* differ in epochs \(2 and 3\).*label"):
        collect(runs)


def test_settings_name_what_differs():
    runs = [*seeds("relu", [90]), *seeds("elu", [90]), *seeds("pau", [90], coefficient_lr=0.001)]
    table = settings_table(collect(runs))
    assert entries(table, "coefficient_lr") == ["– PAU: 0.001"]
    assert entries(table, "epochs") == ["2"]
    assert "clip_norm" not in [row[0].text for row in table.rows]  # off everywhere


def test_no_two_rows_look_the_same():
    rows = [(f"act{i}", "") for i in range(18)] + [("pau", str(i)) for i in range(6)]
    rows += [("rpau", "")]
    found = looks(rows)
    assert len(set(found.values())) == len(rows)
    assert (found["pau", "0"], found["rpau", ""]) == ((0, 0), (1, 0))


def test_page_keeps_first_seeds_and_fewer_epochs_on_a_budget():
    runs = [
        make_run(net="vgg", activation=a, seed=s, epochs=120)
        for a in ("pau", "rpau")
        for s in (0, 1)
    ]
    cells = collect(runs)
    one = 50 * 5 * 10  # epochs, layers, coefficients
    whole = unit_records(cells, budget=4 * one)
    assert [r["name"][-6:] for r in whole] == ["seed 0", "seed 1"] * 2
    assert [len(r["epochs"]) for r in whole] == [50] * 4
    assert whole[0]["epochs"][0] == 0 and whole[0]["epochs"][-1] == 120
    assert [r["name"][-6:] for r in unit_records(cells, budget=4 * one - 1)] == ["seed 0"] * 2
    few = unit_records(cells, budget=one)
    assert [len(r["epochs"]) for r in few] == [25, 25]
    assert few[0]["epochs"][-1] == 120
    assert len(json.dumps(few[0]["layers"][0]["epochs"][3][0][1])) <= len("-0.123456e-05")


def test_embedded_data_cannot_end_the_script():
    text = embed({"name": "</script><!--"})
    assert "<" not in text
    assert json.loads(text) == {"name": "</script><!--"}


def test_whole_report(tmp_path):
    runs = table2(epochs=4, datasets=["mnist"], activations=["relu", "swish", "pau", "rpau"])
    pack([r for r in runs if r.config.net == "vgg"], tmp_path / "runs.jsonl.gz")
    out = tmp_path / "report"
    command = ["report", str(tmp_path / "runs.jsonl.gz"), "--out", str(out), "--title", "T & <b>U|"]
    assert main(command) == 0
    written = sorted(str(p.relative_to(out)) for p in out.rglob("*") if p.is_file())
    tables = ["differences", "lost", "results-mnist", "settings", "wins", "wins-decided"]
    figures = [f"{k}-mnist-vgg-{u}" for k in ("coefficients", "units") for u in ("pau", "rpau")]
    figures.append("curves-mnist-vgg")
    assert written == sorted(
        [f"figures/{n}.{e}" for n in figures for e in ("png", "pdf")]
        + ["files.txt", "report.html", "report.md"]
        + [f"tables/{n}.{e}" for n in tables for e in ("csv", "md", "tex")]
    )
    text = (out / "report.md").read_text(encoding="utf-8")
    assert text.startswith(
        "# T & \\<b>U\\|\n\n20 runs: 17 done, 1 diverged, 1 failed, 1 unfinished."
    )
    for wanted in ("NVIDIA H200", "2.13.0", "5e6f8ce", "mnist-vgg-pau-s3", "4/5 seeds; 1 diverged"):
        assert wanted in text
    assert all(f"]({f})" in text for f in written if f.startswith("figures"))
    wide = "![MNIST, VGG, RPAU, seed 0; band: the noise, 10 times as wide](figures/units-mnist-vgg-"
    assert f"{wide}rpau.png)" in text and text.count("10 times") == 2
    assert (out / "figures/curves-mnist-vgg.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "figures/units-mnist-vgg-rpau.pdf").read_bytes()[:4] == b"%PDF"


def test_a_table_is_one_entry_of_a_list(tmp_path, monkeypatch):
    def counted(cells):
        row = [Entry(str(len(cells)), len(cells))]
        return [Table("cells", "Cells", "How many.", [Column("cells")], [row], [{"cells": 1}])]

    monkeypatch.setattr(tables, "AFTER_FIGURES", [*tables.AFTER_FIGURES, counted])
    pack([make_run(epochs=1, seed=s) for s in range(2)], tmp_path / "runs.jsonl.gz")
    write_report(tmp_path / "runs.jsonl.gz", tmp_path / "report")
    assert (tmp_path / "report/tables/cells.csv").read_text() == "cells\n1\n"
    assert "## Cells\n\nHow many." in (tmp_path / "report/report.md").read_text(encoding="utf-8")
    page = (tmp_path / "report/report.html").read_text(encoding="utf-8")
    assert '<a href="#section-cells">Cells</a>' in page


NOTHING = {"status": "failed", "reason": "a|b", "epochs": 0, "seconds": 0}
NOTHING |= {"test_accuracy": None, "best_accuracy": None}


@pytest.mark.parametrize(
    "runs",
    [
        [make_run(net="mine", epochs=1, groups=12)],
        [make_run(activation="relu", epochs=1)],
        [
            make_run(status="diverged", stop=0),
            make_run(activation="gelu", status="unfinished", stop=0),
        ],
        [Run(make_run().config, [], NOTHING)],
    ],
    ids=["one run with groups", "no units", "nothing finished", "no metrics"],
)
def test_reports_on_little(tmp_path, runs):
    pack(runs, tmp_path / "runs.jsonl.gz")
    files = write_report(tmp_path / "runs.jsonl.gz", tmp_path)
    assert all(p.stat().st_size for p in files)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert f"{len(runs)} run" in text


def test_directory_without_runs(tmp_path, capsys):
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "report")]) == 2
    assert "holds no runs" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_bands_end_at_the_lowest_and_the_highest_seed():
    cell = collect([make_run(seed=s, accuracy=a) for s, a in enumerate((99, 99, 10))])[0]
    epochs, mean, low, high = mean_curve(cell, "test_accuracy")
    seeds = [curve(run, "test_accuracy")[1] for run in cell.runs]
    assert (high == np.max(seeds, 0)).any() and (high <= np.max(seeds, 0)).all()
    assert (low >= np.min(seeds, 0)).all() and (low <= mean).all() and len(epochs) == len(mean)


def test_a_single_epoch_is_a_point():
    pytest.importorskip("matplotlib")
    figure = plot_curves(collect([make_run(epochs=1)]), looks([("pau", "")]))
    markers = [ax.lines[0].get_marker() for ax in figure.axes[:2]]
    assert markers == ["o", "o"]
