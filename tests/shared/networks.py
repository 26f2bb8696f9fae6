"""Small networks in the ways that people write them, for ``convert``, and what its tests share."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import padenet

QUIET = [  # marks: models of others may warn, and the plain path is as good here
    pytest.mark.no_poison,
    pytest.mark.filterwarnings("ignore:padenet runs on plain PyTorch"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning:torch.*"),
]


class Net(nn.Module):
    """``body`` between two linear layers, or without gradients by itself."""

    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.prepare()

    def prepare(self):
        pass

    def forward(self, x):
        return self.last(self.body(self.lin(x)))


class Basic(nn.Module):
    """ResNet's block: one ``self.relu`` at two places, in place."""

    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = nn.Conv2d(inputs, width, 1, stride) if stride != 1 else None

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Basic(4, 4), Basic(4, 8, 2))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = self.layer1(self.relu(self.bn(self.conv(x))))
        return self.fc(x.mean((2, 3)))


class Dense(nn.Module):
    """DenseNet's layer: ``F.relu``, and a dropout that follows the mode."""

    def __init__(self, inputs, rate=0.5):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), nn.Conv2d(inputs, 4, 1)
        self.bn2, self.conv2 = nn.BatchNorm2d(4), nn.Conv2d(4, 2, 3, padding=1)
        self.rate = rate

    def forward(self, x, extra=None):
        y = self.conv1(F.relu(self.bn1(x), inplace=True))
        y = self.conv2(F.relu(self.bn2(y)))
        y = F.dropout(y, p=self.rate, training=self.training)
        return torch.cat([x, y], 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3), Dense(4), Dense(6))
        self.fc = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.features(x), inplace=True)
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))


class Inverted(nn.Module):
    """MobileNetV2's block."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(width, 2 * width, 1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU6(inplace=True),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width),
            nn.ReLU6(inplace=True),
            nn.Conv2d(2 * width, width, 1),
        )

    def forward(self, x):
        return x + self.conv(x)


def mobilenet():
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)]
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU6(True), Inverted(4), Inverted(4), *head)


MODELS = {
    "resnet": (ResNet, ["relu", "layer1.0.relu", "layer1.0.relu_2", "layer1.1.relu"], 5),
    "densenet": (DenseNet, ["relu", "features.1.relu", "features.1.relu_2", "features.2.relu"], 5),
    "mobilenet": (mobilenet, ["1", "2.conv.2", "2.conv.4", "3.conv.2"], 5),
}


def images(n=2):
    return torch.randn(n, 3, 8, 8, generator=torch.Generator().manual_seed(n))


def units_of(model):
    return {name: m for name, m in model.named_modules() if isinstance(m, padenet.PAU)}


def seeded(make, *args):
    torch.manual_seed(0)
    return make(*args)


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 4), nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        return self.last(self.function(self.lin(x)))


class Out(nn.Module):
    """A forward between two linear layers, whose output is no activation."""

    def __init__(self):
        super().__init__()
        self.lin, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.last(self.body(self.lin(x)))
