"""``report.html`` opened in Chromium, for the tests of its parts."""

import importlib
import shutil
import time

import pytest
from runs import page_runs

from padenet.lab.report.cells import collect
from padenet.lab.report.facts import facts
from padenet.lab.report.page import make_page
from padenet.lab.report.tables import make_tables

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--force-prefers-reduced-motion"  # else a click waits for the page to scroll
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
# As WebDriver writes them.
KEYS = {"End": "\ue010", "Home": "\ue011", "ArrowLeft": "\ue012", "ArrowUp": "\ue013"}
KEYS |= {"ArrowRight": "\ue014", "ArrowDown": "\ue015", "Escape": "\ue00c"}
LENET = "Fashion-MNIST · LeNet"  # a chart
TITLE = 'A "title" with </script><b>tags</b>'


def tables_of(runs):
    return make_tables(collect(runs))


def page_of(runs):
    return make_page(TITLE, facts(runs), *tables_of(runs), collect(runs))


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


def press(page, group, key):
    page.find_element("css selector", f"#{group} .chip[data-key='{key}']").click()


def choose(page, select, value):
    page.find_element("css selector", f"#{select} option[value='{value}']").click()


def chart_of(page, title=LENET):
    """The figure as it is now: zooming makes a new chart in it."""
    return next(f for f in find(page, "figure.chart") if title in f.text)


def part(figure, selector):
    return figure.find_element("css selector", selector)


def keys(page, *names):
    """To what has the focus; a chart that was zoomed is a new one."""
    for name in names:
        page.switch_to.active_element.send_keys(KEYS.get(name, name))


def chain(page):
    return importlib.import_module("selenium.webdriver").ActionChains(page)


def drag(page, start, end):
    """Across a chart, from one place to another, both as shares of its frame."""
    svg = part(chart_of(page), ":scope > svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", svg)

    def place(share):
        size = (svg.size["width"], svg.size["height"])
        return [round((s - 0.5) * n) for s, n in zip(share, size, strict=True)]

    actions = chain(page).move_to_element_with_offset(svg, *place(start)).click_and_hold()
    middle = [(a + b) / 2 for a, b in zip(start, end, strict=True)]
    for stop in (middle, end):
        actions.move_to_element_with_offset(svg, *place(stop))
    actions.release().perform()


def downloads_of(page, folder):
    """What gives a file of the folder, the page's downloads, by name as soon as it is there."""
    way = {"behavior": "allow", "downloadPath": str(folder)}
    page.execute_cdp_cmd("Browser.setDownloadBehavior", way)

    def wait(name):
        end = time.monotonic() + 20
        while not (folder / name).exists():
            assert time.monotonic() < end, f"no {name}, only {sorted(folder.iterdir())}"
            time.sleep(0.05)
        return folder / name

    return wait


def focus(page, title=LENET):
    svg = part(chart_of(page, title), ":scope > svg")
    page.execute_script("arguments[0].focus()", svg)
    return svg


def ticks(page, title=LENET):
    """The numbers of the x axis and of the y axis."""
    texts = chart_of(page, title).find_elements("css selector", ":scope > svg > text")
    found: dict[str, list[float]] = {"end": [], "middle": []}
    for text in texts:
        if text.text != "epoch":
            found[text.get_attribute("text-anchor")].append(float(text.text.replace("−", "-")))
    return found["middle"], found["end"]
