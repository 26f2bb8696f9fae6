"""``report.html`` in a real browser: it loads without errors, its tables sort, its units move."""

from dataclasses import asdict

import pytest
import torch
from pages import TITLE, column, downloads_of, find, page_of, tables_of
from runs import make_run, page_runs

from padenet import RPAU, rational
from padenet.core import FORMS
from padenet.lab.report.tables.formats import to_csv


def test_page_is_whole(page):
    assert page.title == TITLE
    assert page.find_element("tag name", "h1").text == TITLE
    assert find(page, "main b") == []
    assert len(find(page, "figure.chart")) == 3
    headings = [h.text for h in find(page, "h2")]
    links = [a.text for a in find(page, "nav a")]
    assert headings == links
    assert links[:3] == ["Results", "Learning curves", "Learned activations"]
    comparisons = ["Wins and losses", "Wins and losses beyond noise", "Paired differences"]
    assert links[3:7] == [*comparisons, "Runs without a value"]


def test_page_asks_no_network(page):
    entries = page.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
    )
    assert [e for e in entries if not e.startswith("data:")] == []
    source = page.page_source
    assert (
        "http://" not in source.replace("http://www.w3.org/2000/svg", "")
        and "https://" not in source
    )


def test_sorting_and_back(page):
    first = ["ReLU", "Swish", "gelu", "PAU", "RPAU"]
    names = ["ReLU", "Swish", "PAU", "RPAU", "gelu"]  # by mean

    def rows():
        return column(page, "results-fashion-mnist", 1)

    assert rows() == first
    name, mean = find(page, "#results-fashion-mnist thead tr:last-child th")[:2]
    back = find(page, "#results .tools button")[2]
    assert (back.text, back.is_displayed()) == ("", False)
    for order, expected in (("descending", names[::-1]), ("ascending", names), ("none", first)):
        mean.find_element("tag name", "button").click()
        assert (mean.get_attribute("aria-sort"), rows()) == (order, expected)
        assert back.is_displayed() == (order != "none")
    mean.find_element("tag name", "button").click()
    name.find_element("tag name", "button").send_keys("\n")
    assert [h.get_attribute("aria-sort") for h in (name, mean)] == ["ascending", "none"]
    assert rows() == sorted(names, key=str.lower)
    assert back.text == "First order"
    back.click()
    assert (name.get_attribute("aria-sort"), rows()) == ("none", first)
    assert page.switch_to.active_element.text == "activation"  # the button that is gone had it


def test_every_table_is_saved_as_it_lies_beside_the_page(page, tmp_path):
    downloads = downloads_of(page, tmp_path)
    results, more = tables_of(page_runs())
    buttons = [b for b in find(page, ".tools button") if b.text == "CSV"]
    assert len(buttons) == len([*results, *more])
    for button, table in zip(buttons, [*results, *more], strict=True):
        button.click()
        assert downloads(f"{table.name}.csv").read_text(encoding="utf-8") == to_csv(table)


def test_missing_values_sort_last(page):
    heading = find(page, "#wins thead tr:last-child th")[-1].find_element("tag name", "button")
    for order in (["8", "1", "–"], ["1", "8", "–"]):
        heading.click()
        assert column(page, "wins", 11) == order


def layer_paths(page):
    return [p.get_attribute("d") for p in find(page, "#layers path.now")]


def move_to(page, value):
    page.execute_script(
        "const s = document.getElementById('epoch'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input'))",
        value,
    )


def test_slider_morphs_every_layer(page):
    output = page.find_element("id", "epoch-value")
    assert output.text == "12"
    last = layer_paths(page)
    assert len(last) == 4
    move_to(page, 0)
    assert output.text == "0"
    first = layer_paths(page)
    assert all(a != b for a, b in zip(first, last, strict=True))
    assert first == [p.get_attribute("d") for p in find(page, "#layers path.start")]
    page.find_element("id", "epoch").send_keys("\ue014")  # right
    assert output.text == "1"


def test_play_runs_to_the_last_epoch(page):
    move_to(page, 10)
    page.find_element("id", "play").click()
    page.execute_async_script("setTimeout(arguments[0], 1500)")
    assert page.find_element("id", "epoch-value").text == "12"
    assert page.find_element("id", "play").text == "Play"


def test_another_run_has_its_own_layers(page):
    names = [o.text for o in find(page, "#run option")]
    assert names[-3:] == [
        "Fashion-MNIST · VGG · PAU · seed 2 (diverged)",
        "Fashion-MNIST · VGG · RPAU · seed 0",
        "Fashion-MNIST · VGG · RPAU · seed 1",
    ]
    find(page, "#run option")[-1].click()
    assert len(layer_paths(page)) == 5
    assert all(p.get_attribute("d") for p in find(page, "#layers path.noise"))


def test_band_can_be_seen_and_the_legend_says_how_wide_it_is(page):
    def choose(name):
        next(o for o in find(page, "#run option") if name in o.text).click()
        return page.find_element("css selector", "#units .legend").text

    assert choose("· PAU · seed 0") == "unit start"
    assert choose("· RPAU · seed 0") == "unit start 10 times the noise (95 %)"
    note = page.find_element("id", "units-note").text
    assert note.endswith("up to ±1 % of each coefficient; the band shows it 10 times as wide.")
    widths = page.execute_script(
        "const run = player.run, [a, b] = groupsOf(run.layers[0].epochs.at(-1))[0];"
        "return [bandWidth(run, a, b, 3), 1.96 * spread(run.form, a, b, 3, 0.01)]"
    )
    assert widths[0] == pytest.approx(10 * widths[1], rel=1e-12)
    heights = page.execute_script(
        "return player.layers.map(({noise, xs, X}) => { const d = noise.getAttribute('d');"
        "const points = d.slice(1, -1).split('L').map(p => p.split(',').map(Number));"
        "return Math.max(...xs.map((_, i) => Math.abs(points[i][1] - points.at(-1 - i)[1]))) })"
    )
    assert min(heights) > 2 * 2  # twice the line's


def test_theme(page):
    def ground():
        return page.execute_script("return getComputedStyle(document.body).backgroundColor")

    for scheme, colour in (("dark", "rgb(20, 23, 27)"), ("light", "rgb(255, 255, 255)")):
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        assert ground() == colour
    button = page.find_element("id", "theme")
    button.click()
    assert (ground(), button.get_attribute("aria-pressed")) == ("rgb(20, 23, 27)", "true")
    button.click()
    assert (ground(), button.get_attribute("aria-pressed")) == ("rgb(255, 255, 255)", "false")


def test_print_is_light_and_whole(page):
    """On A4 paper, of a dark page."""
    size = {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    page.execute_script("document.documentElement.dataset.theme = 'dark'")
    style = "return getComputedStyle(document.body)"
    assert page.execute_script(f"{style}.backgroundColor") == "rgb(255, 255, 255)"
    right = "e => e.getBoundingClientRect().right"
    ends = page.execute_script(f"return [...document.querySelectorAll('table')].map({right})")
    assert len(ends) >= 5 and max(ends) <= 718
    assert page.execute_script("return document.documentElement.scrollWidth") <= 718


@pytest.mark.parametrize("width", [375, 768, 1280])
def test_nothing_overflows(page, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page.refresh()
    assert page.execute_script("return innerWidth") == width
    chart = find(page, "figure.chart > svg")[1]
    page.execute_script("arguments[0].focus()", chart)
    chart.send_keys("\ue011" + "\ue014" * 5)  # Home, and right: the read-out near the middle
    assert find(page, ".read")[1].text.startswith("epoch 5")
    wide = page.execute_script(
        "return [...document.querySelectorAll('body *')]"
        ".filter(e => !e.closest('.scroll, .skip, svg')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_everything_that_can_be_pressed_has_a_name(page):
    unnamed = page.execute_script(
        "return [...document.querySelectorAll('button, select, input, [tabindex]')].filter(e =>"
        " !(e.ariaLabel || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML)"
    )
    assert unnamed == []
    slider = page.find_element("id", "epoch")
    assert slider.accessible_name == "Epoch"


def test_functions_in_the_page_are_those_of_the_package(page):
    """F for every form, and the band's width against noise that RPAU draws."""
    a, b = [0.1, 0.9, -0.3, 0.2, 0.05, 0.01], [0.4, -0.8, 0.1, 0.02]
    x = [-3.0, -1.1, -0.2, 0.0, 0.7, 2.5]
    call = "return arguments[3].map(x => rational(arguments[0], arguments[1], arguments[2], x))"
    for form, flags in FORMS.items():
        found = page.execute_script(call, asdict(flags), a, b, x)
        tensors = [torch.tensor(v, dtype=torch.float64) for v in (x, a, b)]
        assert found == pytest.approx(rational(*tensors, form=form).tolist(), rel=1e-12)
    call = "return arguments[3].map(x => spread(arguments[0], arguments[1], arguments[2], x, 0.01))"
    found = page.execute_script(call, asdict(FORMS["safe"]), a, b, x)
    unit = RPAU((a, b), alpha=0.01, dtype=torch.float64)
    torch.manual_seed(0)
    draws = unit(torch.tensor(x, dtype=torch.float64).expand(20_000, -1).contiguous())
    # A std of n draws is off by 1/sqrt(2n) = .5 %, here up to four times that; the second order
    # adds less than 1 %.
    assert found == pytest.approx(draws.std(0).tolist(), rel=0.03)


def test_page_without_units_or_finished_runs(browser, tmp_path):
    run = make_run("digits", "mine", "relu", epochs=3, status="diverged", stop=0)
    path = tmp_path / "report.html"
    path.write_text(page_of([run]), encoding="utf-8")
    browser.get(path.as_uri())
    assert not browser.find_element("id", "units").is_displayed()
    assert len(browser.find_elements("css selector", "figure.chart")) == 1
    assert browser.get_log("browser") == []
