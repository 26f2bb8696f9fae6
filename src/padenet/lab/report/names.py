"""How things are called, ordered and coloured in reports: the paper's way, then the rest."""

from collections import Counter
from functools import cache

from padenet import make_activation
from padenet.lab.data import DATASETS
from padenet.lab.records.config import UNITS
from padenet.torch import ACTIVATIONS

NETS = {
    "lenet": "LeNet",
    "vgg": "VGG",
    "vgg8": "VGG-8",
    "mobilenetv2": "MobileNetV2",
    "resnet101": "ResNet101",
    "densenet121": "DenseNet121",
    "mobilenetv2-imagenet": "MobileNetV2",
    "mlp": "MLP",
    "conv": "conv net",
    "conv-norm": "conv net, batch norm",
    "vit": "ViT",
    "gru": "GRU",
}
BASELINES = {
    "relu": "ReLU",
    "relu6": "ReLU6",
    "lrelu": "LReLU",
    "rrelu": "RReLU",
    "elu": "ELU",
    "celu": "CELU",
    "swish": "Swish",
    "prelu": "PReLU",
    "maxout": "Maxout",
    "mixture": "Mixture",
    "slaf": "SLAF",
    "apl": "APL",
    "srelu": "SReLU",
}
TITLES = {**NETS, **BASELINES, "pau": "PAU", "rpau": "RPAU"}
MEASURES = {"test_accuracy": "test accuracy", "test_top5": "top-5 test accuracy"}

# PAU's, RPAU's, then shared ones. Each has 3 : 1 or more against its ground, and any two are .13
# or more apart in OKLab, .08 as readers without red or green cones see them.
COLOURS = ["#0072b2", "#d55e00", "#519160", "#2427bb", "#c11a8e"]
COLOURS += ["#c059e9", "#2e5314", "#934951", "#6f226b"]
DARK = ["#4aa5e0", "#f0803c", "#7dbe8b", "#526ee3", "#c882aa"]  # the same on a dark ground
DARK += ["#e8bcfd", "#c5f1ae", "#ce3e57", "#b249ac"]
DASHES: list[tuple[float, ...]] = [(), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2)]
# What a legend groups by, and which dashes its rows take first.
GROUPS = {
    "Units": (0, 1, 2, 3),
    "Learned": (1, 3, 2, 0),
    "Fixed": (0, 2, 3, 1),
    "Others": (2, 3, 1, 0),
}


def dataset_title(name: str) -> str:
    return DATASETS[name].title if name in DATASETS else name


def title(name: str) -> str:
    """Of a net or an activation."""
    return TITLES.get(name, name)


def row_title(activation: str, label: str) -> str:
    return f"{title(activation)} ({label})" if label else title(activation)


def rank(name: str) -> tuple[int, str]:
    """Sorts names: as in the tables above, others by name, PAU and RPAU last as in the paper."""
    for names, base in ((DATASETS, 0), (NETS, 0), (BASELINES, 0), (UNITS, 2000)):
        if name in names:
            return base + list(names).index(name), name
    return 1000, name


def group_of(activation: str) -> str:
    """The one of ``GROUPS`` that an activation is in; "Others" if this version does not know it."""
    if activation in UNITS:
        return "Units"
    if activation not in ACTIVATIONS:
        return "Others"
    return "Learned" if learns(activation) else "Fixed"


@cache
def learns(activation: str) -> bool:
    """Whether a known activation has parameters."""
    try:
        made = make_activation(activation, 1)
    except TypeError:  # one of the user's that cannot be made without options
        return False
    return any(True for _ in made.parameters())


def looks(rows: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
    """For each (activation, label) the numbers of its colour and dash.

    PAU and RPAU keep their colours in every report. Up to 28 other rows differ in colour or dash;
    a colour is used again only when all are in use.
    """
    shared = [(c, d) for c in range(len(UNITS), len(COLOURS)) for d in range(len(DASHES))]
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in rows:
        own = [(UNITS.index(row[0]), d) for d in range(len(DASHES))] if row[0] in UNITS else []
        taken = Counter(found.values())
        free = [look for look in own if not taken[look]] or shared
        uses = Counter(colour for colour, _ in found.values())
        first = GROUPS[group_of(row[0])].index
        found[row] = min(free, key=lambda k: (taken[k], uses[k[0]], first(k[1]), k[0]))
    return found
