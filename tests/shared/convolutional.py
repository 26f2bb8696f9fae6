"""Small models with convolutions, written in the ways that people write them."""

import torch
import torch.nn.functional as F
from torch import nn

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """Written like torchvision's: functions, ``+=``, one ReLU for all."""

    def __init__(self, width=8, inner=6):
        super().__init__()
        self.conv1 = nn.Conv2d(width, inner, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x
        return self.relu(out)


class Mixed(nn.Module):
    """A stem, a residual block, two branches that are joined, a gate, and a flat end."""

    def __init__(self, end=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.block = Block()
        self.left = nn.Conv2d(8, 5, 1)
        self.right = nn.Conv2d(8, 6, 3, padding=1)
        self.gate = nn.Conv2d(11, 10, 1)
        self.body = nn.Conv2d(11, 10, 3, padding=1)
        self.fc = nn.Linear(160, end)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = self.block(x)
        x = torch.cat([F.gelu(self.left(x)), F.max_pool2d(self.right(x), 1)], dim=1)
        gate = torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        x = F.avg_pool2d(self.body(x) * gate, 2)
        return self.fc(x.view(x.size(0), -1))


class Function(nn.Module):
    """A convolution, a function, a linear layer."""

    def __init__(self, function, width=4):
        super().__init__()
        self.conv, self.function = nn.Conv2d(3, width, 3, padding=1), function
        self.fc = nn.LazyLinear(2)

    def forward(self, x):
        return self.fc(self.function(self.conv(x)).flatten(1))


def made(model, seed=0):
    torch.manual_seed(seed)
    model = model.double().eval()
    model(X.double())
    with torch.no_grad():
        for p in [*model.parameters(), *model.buffers()]:
            if p.is_floating_point():
                p += 0.1 * torch.rand_like(p)
    return model
