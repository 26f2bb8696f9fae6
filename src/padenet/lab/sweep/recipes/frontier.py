"""A map of where units train, beside each activation that they replace, up to rates that lose it.

Small nets on the embedded digits, a second per run. For each net, optimiser and rate there is every
activation itself, and a unit initialised to match it, with the same seeds and the stabiliser.
"""

from dataclasses import replace

from padenet.core import AIMS, STARTS
from padenet.lab.records.config import Config, OptimizerName
from padenet.torch import MOST

REPLACED = {  # and the starts that replace them
    "relu": "relu",
    "gelu": "gelu",
    "swish": "swish",
    "tanh": "tanh",
    "elu": "elu",
    "softplus": "softplus",
    "mish": "mish",
    "hardswish": "hardswish",
}
RATES: dict[
    OptimizerName, dict[str, tuple[float, ...]]
] = {  # from safe to where ReLU itself is lost
    "sgd": {
        "mlp": (0.05, 0.2, 0.4),
        "conv": (0.03, 0.1, 0.2),
        "conv-norm": (0.05, 0.4, 1.0),
        "vit": (0.01, 0.03, 0.1),
        "gru": (0.05, 0.2, 0.6),
    },
    "adamw": {
        "mlp": (0.003, 0.01, 0.03),
        "conv": (0.001, 0.005, 0.02),
        "conv-norm": (0.003, 0.01, 0.03),
        "vit": (0.001, 0.003, 0.01),
        "gru": (0.003, 0.01, 0.03),
    },
    "rmsprop": {
        "mlp": (0.001, 0.003, 0.01),
        "conv": (0.001, 0.003, 0.01),
        "conv-norm": (0.001, 0.003, 0.01),
        "vit": (0.0003, 0.001, 0.003),
        "gru": (0.001, 0.003, 0.01),
    },
    "muon": {
        "mlp": (0.02, 0.05, 0.1),
        "conv": (0.02, 0.05, 0.1),
        "conv-norm": (0.02, 0.05, 0.1),
        "vit": (0.005, 0.02, 0.05),
        "gru": (0.01, 0.02, 0.05),
    },
}
DECAY: dict[OptimizerName, float] = {"sgd": 5e-4, "adamw": 0.01, "rmsprop": 0.0, "muon": 0.01}
NOISY = ("relu", "gelu")  # replaced by randomised units too, of each of these widths
ALPHAS = (0.01, 0.1)
SEEDS = range(5)
MORE = range(5, 20)  # seeds for the cells in which five do not decide: tools/frontier.py --close


def frontier() -> list[Config]:
    """5 nets, 8 activations, 4 optimisers, 3 rates, 5 seeds, and the units for them; whole seeds
    first, so that a part is a map too."""
    return [
        run
        for seed in SEEDS
        for optimizer, nets in RATES.items()
        for net, rates in nets.items()
        for rate in rates
        for activation in REPLACED
        for run in cell(net, optimizer, rate, activation, seed)
    ]


def cell(
    net: str, optimizer: OptimizerName, rate: float, activation: str, seed: int
) -> list[Config]:
    """An activation and the units in its place."""
    where = f"{optimizer}_{rate:g}"
    own = Config(
        net=net,
        activation=activation,
        seed=seed,
        label=where,
        epochs=12,
        optimizer=optimizer,
        lr=rate,
        lr_decay=0.8,
        momentum=0.9 if optimizer == "sgd" else 0.0,
        weight_decay=DECAY[optimizer],
    )
    unit = replace(
        own,
        activation="pau",
        start=REPLACED[activation],
        stabilize=MOST,
        label=f"{activation}_{where}",
    )
    noisy = activation in NOISY and optimizer in ("sgd", "adamw")
    return [
        own,
        unit,
        *(
            replace(unit, activation="rpau", alpha=a, label=f"{activation}_{100 * a:g}_{where}")
            for a in (ALPHAS if noisy else ())
        ),
    ]


def starts() -> list[Config]:
    """Every stored start of every aim in the conv net, with the stabiliser and without."""
    return [
        Config(
            net="conv",
            activation="pau",
            seed=seed,
            label=f"{name.replace('-', 'minus')}_{aim}{'' if most else '_free'}",
            epochs=12,
            optimizer="sgd",
            lr=0.1,
            lr_decay=0.8,
            momentum=0.9,
            weight_decay=DECAY["sgd"],
            start=name,
            aim=aim,
            stabilize=most,
        )
        for seed in range(5)
        for name, start in STARTS.items()
        if start.aim in AIMS
        for aim in AIMS
        for most in (MOST, None)
    ]
