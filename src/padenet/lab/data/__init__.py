"""Data sets: from files to batches on the device.

table.py     every data set by name: a new one is an entry there
lookup.py    data sets by name: locate, verify, load
fetch.py     downloads
sources.py   published files, and a copy of them on this machine
local.py     where copies lie; digests checked
readers/     from files to records: MNIST's and CIFAR-10's formats, the digits, ImageNet
sets.py      what a data set is once it is loaded: the records Dataset and Folder
folder.py    folders of images, decoded in DataLoader workers
order.py     the order of an epoch, shared among ranks
augment.py   augmentation and normalisation of batches, on the device
"""

from padenet.lab.data.augment import AUGMENTATIONS, augment, normalise
from padenet.lab.data.fetch import fetch
from padenet.lab.data.folder import ImageFolder
from padenet.lab.data.local import data_home
from padenet.lab.data.lookup import check_there, load, locate
from padenet.lab.data.lookup import verify_files as verify
from padenet.lab.data.order import Draw, EpochSampler, epoch_order
from padenet.lab.data.sets import Dataset, Folder, in_memory
from padenet.lab.data.sources import Layout, LocalCopy, Source
from padenet.lab.data.table import DATASETS, DatasetSpec

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "Dataset",
    "DatasetSpec",
    "Draw",
    "EpochSampler",
    "Folder",
    "ImageFolder",
    "Layout",
    "LocalCopy",
    "Source",
    "augment",
    "check_there",
    "data_home",
    "epoch_order",
    "fetch",
    "in_memory",
    "load",
    "locate",
    "normalise",
    "verify",
]
