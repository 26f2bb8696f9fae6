"""The axes of the charts of report.html: their scale, what is zoomed, where they end."""

import numpy as np
import pytest
from pages import chain, chart_of, choose, drag, find, focus, keys, page_of, part, ticks
from runs import make_run


def test_log_scale(page):
    log = page.find_element("id", "log")
    assert log.get_attribute("aria-pressed") == "false"
    choose(page, "measure", "train_loss")
    assert log.get_attribute("aria-pressed") == "true"
    gaps = page.execute_script(
        "const {Y} = frame(element('figure'), {x: [0, 1], y: [1, 100], width: 300, height: 200,"
        " log: true}); return [Y(1) - Y(10), Y(10) - Y(100)]"
    )
    assert gaps[0] == pytest.approx(gaps[1])
    shown = ticks(page)[1]
    log.click()
    assert log.get_attribute("aria-pressed") == "false"
    steps = np.diff(ticks(page)[1])
    assert ticks(page)[1] != shown and steps == pytest.approx(steps[0])


def test_error_is_what_accuracy_leaves(page):
    choose(page, "measure", "test_error")
    texts = part(chart_of(page), ".values").text.split("\n")
    assert texts[:2] == ["ReLU", "10.95 ± 0.07"] and texts[-2:] == ["gelu", "7.00 ± 0.00"]


def test_zoom_by_drag_and_reset(page):
    whole = ticks(page)
    assert whole[0][0] == 0 and whole[0][-1] == 12
    reset = ".reset"
    assert not part(chart_of(page), reset).is_displayed()
    drag(page, (0.5, 0.1), (0.9, 0.6))
    (first, *_, last), rows = ticks(page)
    assert 4 < first < last < 12
    assert min(rows) > min(whole[1])
    part(chart_of(page), reset).click()
    assert ticks(page) == whole
    assert not part(chart_of(page), reset).is_displayed()
    assert page.switch_to.active_element.tag_name == "svg"  # the button that is gone had the focus
    drag(page, (0.5, 0.5), (0.9, 0.51))  # flat: all heights of those epochs
    assert ticks(page)[0][0] > 4
    svg = part(chart_of(page), ":scope > svg")
    chain(page).double_click(svg).perform()
    assert ticks(page) == whole
    assert part(chart_of(page, "Fashion-MNIST · VGG"), reset).is_displayed() is False


def test_zoom_by_keys_keeps_focus_and_epoch(page):
    whole = ticks(page)
    focus(page)
    keys(page, "Home", "+")
    assert ticks(page)[0][-1] == 6 and ticks(page)[0][0] == 0
    assert part(chart_of(page), ".read").text == "epoch 0"
    keys(page, "End", "ArrowRight")  # not beyond what is shown
    assert part(chart_of(page), ".read").text == "epoch 6"
    keys(page, "-")
    assert ticks(page) == whole
    keys(page, "+", "+", "+", "+", "+", "0")
    assert ticks(page) == whole


def test_the_x_axis_has_a_name(page):
    texts = chart_of(page).find_elements("css selector", ":scope > svg > text")
    assert "epoch" in [t.text for t in texts]


def test_a_single_epoch_is_a_ring(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page_of([make_run(epochs=1)]), encoding="utf-8")
    browser.get(path.as_uri())
    choose(browser, "measure", "train_loss")
    ring = find(browser, "#charts .line")[0]
    assert min(ring.rect["width"], ring.rect["height"]) > 4.9
    choose(browser, "measure", "test_accuracy")
    line = find(browser, "#charts .line")[0]
    assert line.rect["width"] > 200 and line.rect["height"] > 100  # from epoch 0 to 1
    assert find(browser, "#activations > *")[-1].text.startswith("Units")  # no All and None for one


def test_no_band_and_no_axis_beyond_the_seeds(page):
    """Seeds of which some are at chance for long: mean + std lies above 100."""
    high, (bottom, top), std = page.execute_script(
        "const epochs = [...Array(21).keys()];"
        "const seed = late => ({status: 'done', epochs,"
        "  test_accuracy: epochs.map(e => e < late ? 10 : 99)});"
        "const cell = {seeds: [seed(1), seed(1), seed(9)]};"
        "const {high, stds} = average(cell, 'test_accuracy');"
        "return [Math.max(...high), heights([cell], 'test_accuracy', false), stds[5]]"
    )
    assert high == 99
    assert bottom < 10 and 99 < top < 107
    assert std == pytest.approx(51.38, abs=0.01)  # of 99, 99, 10: the read-out is not cut
