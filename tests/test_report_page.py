"""``report.html`` in a real browser: it loads without errors, and what can be pressed works."""

import shutil

import pytest
import torch
from runs import make_run, page_runs

from padenet import RPAU, rational
from padenet.experiments.report.cells import collect
from padenet.experiments.report.comparisons import comparison_tables
from padenet.experiments.report.overview import facts, lost_tables, settings_table
from padenet.experiments.report.page import make_page
from padenet.experiments.report.results import results_tables

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--force-prefers-reduced-motion"  # else a click waits for the page to scroll
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
TITLE = 'A "title" with </script><b>tags</b>'


def page_of(runs):
    cells = collect(runs)
    more = [*comparison_tables(cells), *lost_tables(cells), settings_table(cells)]
    return make_page(TITLE, facts(runs), results_tables(cells), more, cells)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    binary = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if not (binary and driver):
        pytest.skip("no Chromium with chromedriver here")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=driver)
    found = webdriver.Chrome(options=options, service=service)
    yield found
    found.quit()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page_of(page_runs()), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser, address):
    """The page as after opening it; a test that leaves a message in the console fails."""
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    browser.get(address)
    browser.execute_script("try { localStorage.clear() } catch {}")
    yield browser
    assert browser.get_log("browser") == []


def find(page, selector):
    return page.find_elements("css selector", selector)


def column(page, table, index):
    cells = find(page, f"#{table} tbody tr td:nth-child({index})")
    return [c.text.split("\n")[0] for c in cells]


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


def test_sorting(page):
    names = ["ReLU", "Swish", "PAU", "RPAU", "gelu"]  # by mean
    assert column(page, "results-fashion-mnist", 1) == ["ReLU", "Swish", "gelu", "PAU", "RPAU"]
    first, mean = find(page, "#results-fashion-mnist thead tr:last-child th")[:2]
    mean.find_element("tag name", "button").click()
    assert mean.get_attribute("aria-sort") == "descending"
    assert column(page, "results-fashion-mnist", 1) == names[::-1]
    mean.find_element("tag name", "button").click()
    assert mean.get_attribute("aria-sort") == "ascending"
    assert column(page, "results-fashion-mnist", 1) == names
    first.find_element("tag name", "button").send_keys("\n")
    assert (first.get_attribute("aria-sort"), mean.get_attribute("aria-sort")) == (
        "ascending",
        "none",
    )
    assert column(page, "results-fashion-mnist", 1) == sorted(names, key=str.lower)


def test_missing_values_sort_last(page):
    heading = find(page, "#wins thead tr:last-child th")[-1].find_element("tag name", "button")
    for order in (["8", "1", "–"], ["1", "8", "–"]):
        heading.click()
        assert column(page, "wins", 11) == order


def press(page, group, key):
    page.find_element("css selector", f"#{group} .chip[data-key='{key}']").click()


def test_toggles(page):
    swish = "#charts g[data-activation='Swish']"
    assert len(find(page, swish)) == 2
    press(page, "activations", "Swish")
    assert find(page, swish) == []
    assert len(find(page, "#charts g[data-activation='ReLU']")) == 2
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
        path = "#charts g[data-activation='PAU'] .line"
        return page.find_element("css selector", path).get_attribute("d")

    before = drawn()
    page.find_element("css selector", "#measure option[value='train_loss']").click()
    assert drawn() != before
    assert "training loss by epoch" in find(page, "figure.chart figcaption")[0].text


def test_read_out_by_pointer_and_keys(page):
    figure = next(f for f in find(page, "figure.chart") if "Fashion-MNIST · LeNet" in f.text)
    chart, box = (figure.find_element("css selector", s) for s in ("svg", ".readout"))
    assert not box.is_displayed()
    page.execute_script("arguments[0].focus()", chart)
    chart.send_keys("\ue010")  # End
    lines = box.text.split("\n")
    assert lines[0] == "epoch 12"
    # seeds at 92.0 and 92.1: mean 92.05, std .0707
    assert lines[1:3] == ["gelu 93.00 ± 0.00", "RPAU 92.05 ± 0.07"]
    assert len(lines) == 6
    chart.send_keys("\ue012")  # left
    assert box.text.startswith("epoch 11")
    chart.send_keys("\ue00c")  # Escape
    assert not box.is_displayed()
    page.execute_script(
        "const r = arguments[0].getBoundingClientRect();"
        "arguments[0].dispatchEvent(new PointerEvent('pointermove',"
        "{clientX: r.left + r.width / 2, clientY: r.top + 50}))",
        chart,
    )
    assert box.text.startswith("epoch 6")


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
    chart = find(page, "figure.chart svg")[1]
    page.execute_script("arguments[0].focus()", chart)
    chart.send_keys("\ue011" + "\ue014" * 5)  # Home, and right: the read-out near the middle
    assert find(page, ".readout")[1].text.startswith("epoch 5")
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
    for form in ("safe", "abs_terms", "free", "offset"):
        found = page.execute_script(call, form, a, b, x)
        tensors = [torch.tensor(v, dtype=torch.float64) for v in (x, a, b)]
        assert found == pytest.approx(rational(*tensors, form=form).tolist(), rel=1e-12)
    call = "return arguments[2].map(x => spread('safe', arguments[0], arguments[1], x, 0.01))"
    found = page.execute_script(call, a, b, x)
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
