"""How things are called, ordered and coloured in reports: the paper's way, then the rest."""

DATASETS = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "imagenet": "ImageNet",
    "digits": "Digits",
}
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
UNITS = {"pau": "PAU", "rpau": "RPAU"}
TITLES = {**DATASETS, **NETS, **BASELINES, **UNITS}
MEASURES = {"test_accuracy": "test accuracy", "test_top5": "top-5 test accuracy"}

# Okabe and Ito's colours, which colour-blind readers tell apart; yellow is too pale on white.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F"]
DASHES: list[tuple[float, ...]] = [(), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2)]


def title(name: str) -> str:
    return TITLES.get(name, name)


def row_title(activation: str, label: str) -> str:
    return f"{title(activation)} ({label})" if label else title(activation)


def rank(name: str) -> tuple[int, str]:
    """Sorts names: as in the tables above, others by name, PAU and RPAU last as in the paper."""
    for names, base in ((DATASETS, 0), (NETS, 0), (BASELINES, 0), (UNITS, 2000)):
        if name in names:
            return base + list(names).index(name), name
    return 1000, name


def looks(rows: list[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, int]]:
    """For each (activation, label) the numbers of its colour and dash.

    PAU and RPAU keep their colours in every report. Up to 20 other rows differ in colour or dash.
    """
    own, shared = len(UNITS), len(COLOURS) - len(UNITS)
    found: dict[tuple[str, str], tuple[int, int]] = {}
    seen = dict.fromkeys((*UNITS, ""), 0)
    for row in rows:
        kind = row[0] if seen.get(row[0], len(DASHES)) < len(DASHES) else ""
        i = seen[kind]
        seen[kind] += 1
        if kind:
            found[row] = (list(UNITS).index(kind), i)
        else:
            found[row] = (own + i % shared, i // shared % len(DASHES))
    return found
