"""Colours and dashes of rows: told apart by all readers, with contrast in both themes."""

import numpy as np
import pytest
import torch
from pages import chart_of, part, press
from runs import PAPER

from padenet.lab.records.config import UNITS
from padenet.lab.report.names import COLOURS, DARK, group_of, learns, looks
from padenet.torch.registry import ACTIVATIONS

LMS = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566]]
LMS += [[0.0883024619, 0.2817188376, 0.6299787005]]
LAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099]]
LAB += [[0.0259040371, 0.7827717662, -0.8086757660]]
# Of Machado, Oliveira and Fernandes (2009), whole: no green cones, no red ones.
GREENLESS = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413]]
GREENLESS += [[-0.011820, 0.042940, 0.968881]]
REDLESS = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216]]
REDLESS += [[-0.003882, -0.048116, 1.051998]]


def linear(colour):
    c = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    light = sorted(float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


@pytest.mark.parametrize(("colours", "ground"), [(COLOURS, "#ffffff"), (DARK, "#14171b")])
def test_colours_can_be_told_apart(colours, ground):
    assert min(contrast(c, ground) for c in colours) >= 3
    for seen_as, least in ((np.eye(3), 0.13), (GREENLESS, 0.08), (REDLESS, 0.08)):
        seen = np.clip([np.array(seen_as) @ linear(c) for c in colours], 0, 1)
        lab = np.cbrt(seen @ np.array(LMS).T) @ np.array(LAB).T
        apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1) + 9 * np.eye(len(lab))
        assert apart.min() >= least


def test_thirteen_curves_differ():
    found = looks([(name, "") for name in PAPER])
    assert len(set(found.values())) == 13
    colours = [colour for colour, _ in found.values()]
    assert set(colours) == set(range(len(COLOURS)))
    assert max(colours.count(c) for c in colours) == 2


def test_what_learns_is_what_has_parameters():
    learned = {n for n in ACTIVATIONS if group_of(n) == "Learned"}
    assert learned == {"prelu", "mixture", "slaf", "apl", "srelu"}
    assert all(map(learns, UNITS)) and {group_of(n) for n in UNITS} == {"Units"}


def test_an_activation_that_cannot_be_made_counts_as_fixed(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "needy", lambda slope: torch.nn.LeakyReLU(slope))
    assert group_of("needy") == "Fixed" and group_of("unknown") == "Others"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_contrast(page, theme):
    """4.5 : 1 on the ground and on buttons, chosen or not."""
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    press(page, "activations", "Swish")
    part(chart_of(page), "li").click()
    pairs = page.execute_script(
        "const pixel = document.createElement('canvas').getContext('2d',"
        " {willReadFrequently: true});"
        "const hex = (...colours) => { for (const c of colours) { pixel.fillStyle = c;"
        " pixel.fillRect(0, 0, 1, 1); } return '#' + [...pixel.getImageData(0, 0, 1, 1).data]"
        ".slice(0, 3).map(v => v.toString(16).padStart(2, '0')).join(''); };"
        "const style = e => getComputedStyle(e), ground = style(document.body).backgroundColor;"
        "return [...document.querySelectorAll('body *')].filter(e => e.offsetWidth &&"
        " [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {"
        " const back = []; for (let n = e; n; n = n.parentElement)"
        " back.unshift(style(n).backgroundColor);"
        " return [hex(ground, ...back), hex(ground, ...back, style(e).color), e.outerHTML]; })"
    )
    assert len(pairs) > 100
    pale = {html[:80]: round(contrast(a, b), 2) for a, b, html in pairs if contrast(a, b) < 4.5}
    assert pale == {}
