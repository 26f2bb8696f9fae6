"""LeNet for 32 × 32 images: three convolutions, two linear layers, four units."""

from torch import nn

from padenet.lab.nets.blocks import ActivationMaker, named


def lenet(act: ActivationMaker, channels: int, classes: int) -> nn.Sequential:
    k = act.pieces
    return named(
        conv1=nn.Conv2d(channels, k * 6, 5),
        act1=act(6),
        pool1=nn.MaxPool2d(2),
        conv2=nn.Conv2d(6, k * 16, 5),
        act2=act(16),
        pool2=nn.MaxPool2d(2),
        conv3=nn.Conv2d(16, k * 120, 5),
        act3=act(120),
        flatten=nn.Flatten(),
        fc1=nn.Linear(120, k * 84),
        act4=act(84),
        fc2=nn.Linear(84, classes),
    )
