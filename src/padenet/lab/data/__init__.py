"""Data sets: from files to batches on the device.

sets.py      load, and the records Dataset and Folder
sources.py   the published files of each set: layouts, digests, mirrors
places.py    where a set lies on this machine; digests checked
fetch.py     downloads
idx.py       MNIST's format
cifar.py     CIFAR-10's two formats
folder.py    folders of images, decoded in DataLoader workers
order.py     the order of an epoch, shared among ranks
augment.py   augmentation and normalisation of batches, on the device
"""

from padenet.lab.data.augment import AUGMENTATIONS, augment, normalise
from padenet.lab.data.fetch import fetch
from padenet.lab.data.folder import ImageFolder
from padenet.lab.data.order import Draw, EpochSampler, epoch_order
from padenet.lab.data.places import data_home, locate, verify
from padenet.lab.data.sets import NAMES, Dataset, Folder, check_there, load
from padenet.lab.data.sources import SOURCES, Layout, Source

__all__ = [
    "AUGMENTATIONS",
    "NAMES",
    "SOURCES",
    "Dataset",
    "Draw",
    "EpochSampler",
    "Folder",
    "ImageFolder",
    "Layout",
    "Source",
    "augment",
    "check_there",
    "data_home",
    "epoch_order",
    "fetch",
    "load",
    "locate",
    "normalise",
    "verify",
]
