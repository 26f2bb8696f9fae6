"""The charts of ``report.html`` in a real browser: legend, marks, values, files."""

import xml.etree.ElementTree as ET

import pytest
from pages import (
    LENET,
    chain,
    chart_of,
    choose,
    downloads_of,
    find,
    focus,
    keys,
    part,
    press,
    ticks,
)


def test_toggles(page):
    swish = "#charts g[data-row='Swish']"
    assert len(find(page, swish)) == 2
    press(page, "activations", "Swish")
    assert find(page, swish) == []
    assert len(find(page, "#charts g[data-row='ReLU']")) == 2
    press(page, "activations", "Swish")
    assert len(find(page, swish)) == 2
    press(page, "nets", "VGG")
    assert len(find(page, "figure.chart")) == 2
    press(page, "datasets", "Fashion-MNIST")
    assert len(find(page, "figure.chart")) == 1
    none = page.find_element("xpath", "//button[text()='None']")
    none.click()
    assert "Nothing is chosen" in page.find_element("id", "charts").text


def test_measure_changes_the_curves(page):
    def drawn():
        path = "#charts g[data-row='PAU'] .line"
        return page.find_element("css selector", path).get_attribute("d")

    before = drawn()
    choose(page, "measure", "train_loss")
    assert drawn() != before
    assert "training loss by epoch" in find(page, "figure.chart figcaption")[0].text


def marked(page):
    """The rows that stand out, by where."""
    kinds = {"chips": "#activations .chip", "curves": "#charts g", "values": "#charts li"}
    return {
        kind: {node.get_attribute("data-row") for node in find(page, f"{selector}.marked")}
        for kind, selector in kinds.items()
    }


def everywhere(name):
    return {"chips": {name}, "curves": {name}, "values": {name}}


NOTHING: dict[str, set[str]] = {"chips": set(), "curves": set(), "values": set()}


def test_the_values_lie_beneath_the_chart(page):
    """At the last epoch until one is pointed at; never over the curves."""
    figure = chart_of(page)
    head, values = part(figure, ".read"), part(figure, ".values")
    assert head.text == "epoch 12 (last)"
    # seeds at 92.0 and 92.1: mean 92.05, std .0707
    assert values.text.split("\n")[:4] == ["gelu", "93.00 ± 0.00", "RPAU", "92.05 ± 0.07"]
    assert len(part(figure, ".values").find_elements("css selector", "li")) == 5
    svg = focus(page)
    keys(page, "End")
    assert head.text == "epoch 12"
    keys(page, "ArrowLeft")
    assert head.text == "epoch 11"
    for node in (head, values):
        assert node.rect["y"] >= svg.rect["y"] + svg.rect["height"]
    keys(page, "Escape")
    assert head.text == "epoch 12 (last)"
    page.execute_script(
        "const r = arguments[0].getBoundingClientRect();"
        "arguments[0].dispatchEvent(new PointerEvent('pointermove',"
        "{clientX: r.left + r.width / 2, clientY: r.top + 50}))",
        svg,
    )
    assert head.text.startswith("epoch 6")
    assert part(chart_of(page, "MNIST · LeNet"), ".read").text == "No seed was trained to the end."


def test_a_curve_stands_out_by_pointer_click_and_keys(page):
    assert marked(page) == NOTHING
    hover = chain(page)
    hover.move_to_element(part(chart_of(page), ".values li[data-row='PAU']")).perform()
    assert marked(page) == everywhere("PAU")
    hover.move_to_element(find(page, "h1")[0]).perform()
    assert marked(page) == NOTHING
    part(chart_of(page), ".values li[data-row='Swish']").click()
    hover.move_to_element(find(page, "h1")[0]).perform()
    assert marked(page) == everywhere("Swish")
    top = find(page, "#charts .plot")[1].find_elements("css selector", ":scope > g")[-1]
    assert top.get_attribute("data-row") == "Swish"
    focus(page)
    keys(page, "Escape")
    assert marked(page) == NOTHING
    keys(page, "ArrowDown")
    assert marked(page) == everywhere("gelu")  # the highest
    keys(page, "ArrowDown")
    assert marked(page) == everywhere("RPAU")
    assert part(chart_of(page), ".read").text == "epoch 12: RPAU 92.05 ± 0.07"
    press(page, "activations", "RPAU")  # a curve that is not drawn does not stand out
    hover.move_to_element(find(page, "h1")[0]).perform()
    assert marked(page) == NOTHING


def touch(page, *places):
    """A finger down at the first place, over the others, and up."""
    kinds = ["touchStart", *["touchMove"] * (len(places) - 1)]
    for kind, (x, y) in zip(kinds, places, strict=True):
        event = {"type": kind, "touchPoints": [{"x": x, "y": y}]}
        page.execute_cdp_cmd("Input.dispatchTouchEvent", event)
    page.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_tap_marks_a_curve_and_a_finger_that_drags_zooms(page):
    svg = part(chart_of(page), ":scope > svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)
    x, y = page.execute_script(
        "const line = arguments[0].querySelector('g[data-row=gelu] .line');"
        "const end = line.getPointAtLength(line.getTotalLength());"
        "const {x, y} = end.matrixTransform(line.getScreenCTM()); return [x - 2, y]",
        svg,
    )
    touch(page, (x, y))
    assert marked(page) == everywhere("gelu")
    assert part(chart_of(page), ".read").text == "epoch 12: gelu 93.00 ± 0.00"
    touch(page, *[(x - step, y + 40) for step in range(0, 200, 20)])
    assert 4 < ticks(page)[0][0] < ticks(page)[0][-1] <= 12
    assert part(chart_of(page), ".reset").is_displayed()
    assert marked(page) == everywhere("gelu")


def test_legend_groups(page):
    groups = find(page, "#activations > [role=group]")
    names = {g.get_attribute("aria-label"): [b.text for b in find(g, ".chip")] for g in groups}
    assert names == {
        "Fixed": ["Fixed", "ReLU", "Swish", "gelu"],
        "Learned": ["Learned", "SLAF"],
        "Units": ["Units", "PAU", "RPAU"],
    }
    fixed = find(groups[0], ".chip")

    def states():
        return [b.get_attribute("aria-pressed") for b in fixed]

    fixed[1].click()
    assert states() == ["mixed", "false", "true", "true"]
    fixed[0].click()
    assert states() == ["true"] * 4
    fixed[0].click()
    assert states() == ["false"] * 4
    drawn = {g.get_attribute("data-row") for g in find(page, "#charts .plot > g")}
    assert drawn == {"SLAF", "PAU", "RPAU"}


def test_values_keep_their_digits(page):
    """Of accuracies two decimals; a loss that is far below the others is not 0."""
    found = page.execute_script(
        "const list = element('ol', {}), one = (row, mean, std) =>"
        " ({row, mean: {epochs: [0], mean: [mean], stds: [std], seeds: 2}});"
        "const texts = (...curves) => listValues(list, curves, 0).map(v => v.text);"
        "return [texts(one('PAU', 92.3456, .004), one('ReLU', 9, 1)),"
        " texts(one('PAU', 2.3e-6, 1e-7), one('ReLU', .0996, .002)), texts(one('PAU', 0, 0))]"
    )
    assert found[0] == ["92.35 ± 0.00", "9.00 ± 1.00"]
    assert found[1] == ["0.09960 ± 0.00200", "2.3e−6 ± 1.0e−7"]
    assert found[2] == ["0.00 ± 0.00"]


def test_smoothing_keeps_ends_gaps_and_values(page):
    found = page.execute_script(
        "const epochs = [0, 1, 2, 3, 4, 5, 6];"
        "return [smoothed(epochs, [null, 8, 2, 5, 8, 2, 3], 3),"
        " smoothed(epochs, [0, 6, 0, 6, 0, 6, 0], 5), smoothed(epochs, [0, 1, 0, 1, 0, 1, 0], 1)]"
    )
    assert found[0] == pytest.approx([None, 5, 5, 5, 5, 13 / 3, 3])
    assert found[1] == pytest.approx([0, 2, 12 / 5, 18 / 5, 12 / 5, 2, 0])
    assert found[2] == [0, 1, 0, 1, 0, 1, 0]
    line = "#charts g[data-row='PAU'] .line"
    before, values = find(page, line)[0].get_attribute("d"), chart_of(page).text
    choose(page, "smooth", "5")
    assert find(page, line)[0].get_attribute("d") != before
    assert chart_of(page).text == values


@pytest.mark.parametrize(
    ("theme", "pau"), [("light", "rgb(0, 114, 178)"), ("dark", "rgb(74, 165, 224)")]
)
def test_figures_are_saved_as_drawn(page, tmp_path, theme, pau):
    downloads = downloads_of(page, tmp_path)
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    press(page, "activations", "Swish")
    name = "curves-Fashion-MNIST-LeNet-test_accuracy"
    for button in find(chart_of(page), ".tools .small"):
        button.click()
    svg = ET.parse(downloads(f"{name}.svg")).getroot()
    space = "{http://www.w3.org/2000/svg}"
    texts = [t.text for t in svg.iter(f"{space}text")]
    assert texts[0] == f"{LENET}: test accuracy (%) by epoch"
    assert texts[-4:] == ["ReLU", "gelu", "PAU", "RPAU"]
    for kind in ("path", "line"):  # of the curve, of the legend
        assert pau in [line.get("stroke") for line in svg.iter(space + kind)]
    written = ET.tostring(svg, encoding="unicode")
    assert "var(" not in written and "light-dark(" not in written
    assert downloads(f"{name}.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    for button in find(page, "#units-tools button"):
        button.click()
    first = find(page, "#run option")[0].text
    name = "units-" + first.replace(" · ", "-").replace(" ", "-") + "-epoch-12"
    drawn = ET.parse(downloads(f"{name}.svg")).getroot()
    assert [t.text for t in drawn.iter(f"{space}text")][-2:] == ["unit", "start"]
    assert downloads(f"{name}.png").stat().st_size > 5000
