"""Every data set by name. The table is the documentation: read it top to bottom.

A data set of your own is one more entry:

    DATASETS["mine"] = DatasetSpec(title="Mine", load=load_mine)

where ``load_mine(data_dir)`` gives a ``Dataset``, which ``in_memory`` makes of arrays, or a
``Folder``. It then has a name in runs and reports like the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from padenet.lab.data.local import PathLike
from padenet.lab.data.readers.cifar import read_binary_batches, read_pickled_batches
from padenet.lab.data.readers.digits import DIGITS, read_digits
from padenet.lab.data.readers.idx import read_pairs
from padenet.lab.data.readers.imagenet import imagenet_root, read_imagenet
from padenet.lab.data.sets import Dataset, Folder
from padenet.lab.data.sources import Layout, Source


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """What there is to know of a data set: it has a ``source`` of published files, or ``load``."""

    title: str  # in reports
    protocol: str = "mnist"  # how nets are trained on it: one of padenet.lab.sweep.recipes
    source: Source | None = None
    classes: tuple[str, ...] = ()  # of the source
    load: Callable[[PathLike | None], Dataset | Folder] | None = None  # given the data directory
    find: Callable[[Path], Path] | None = None  # its folder in there, or FileNotFoundError
    packaged: bool = False  # comes with padenet, so that there is nothing to find or to verify
    no_source: str = "is made by a function: there is nothing to fetch or to verify."

    def __post_init__(self) -> None:
        if (self.source is None) == (self.load is None):
            raise ValueError(f"data set {self.title!r} needs either source or load.")


MNIST = {
    "train-images-idx3-ubyte": "md5:6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "md5:a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "md5:2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "md5:27ae3e4e09519cfbb04c329615203637",
}
FASHION_MNIST = {
    "train-images-idx3-ubyte": "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "md5:9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "md5:8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "md5:15d484375f8d13e6eb1aabb0c3f46965",
}
CIFAR10_BINARY = {
    "data_batch_1.bin": "sha1:aadd24acce27caa71bf4b10992e9e7b2d74c2540",
    "data_batch_2.bin": "sha1:c0ba65cce70568cd57b4e03e9ac8d2a5367c1795",
    "data_batch_3.bin": "sha1:1dd00a74ab1d17a6e7d73e185b69dbf31242f295",
    "data_batch_4.bin": "sha1:aab85764eb3584312d3c7f65fd2fd016e36a258e",
    "data_batch_5.bin": "sha1:26e2849e66a845b7f1e4614ae70f4889ae604628",
    "test_batch.bin": "sha1:67eb016db431130d61cd03c7ad570b013799c88c",
}
CIFAR10_PICKLE = {
    "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "md5:40351d587109b95175f43aff81a1287e",
}


DATASETS: dict[str, DatasetSpec] = {
    "mnist": DatasetSpec(
        title="MNIST",
        classes=DIGITS,
        source=Source(
            (Layout("mnist", read_pairs, MNIST), Layout("MNIST/raw", read_pairs, MNIST)),
            (
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
            {
                "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
                "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
                "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
            },
        ),
    ),
    "fashion-mnist": DatasetSpec(
        title="Fashion-MNIST",
        classes=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        source=Source(
            (
                Layout("fashion-mnist", read_pairs, FASHION_MNIST),
                Layout("FashionMNIST/raw", read_pairs, FASHION_MNIST),
            ),
            ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            {
                "train-images-idx3-ubyte.gz": "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "train-labels-idx1-ubyte.gz": "md5:25c81989df183df01b3e8a0aad5dffbe",
                "t10k-images-idx3-ubyte.gz": "md5:bef4ecab320f06d8554ea6380940ec79",
                "t10k-labels-idx1-ubyte.gz": "md5:bb300cfdad3c16e7a12a480ee83cd310",
            },
        ),
    ),
    "cifar10": DatasetSpec(
        title="CIFAR-10",
        protocol="cifar",
        classes=(
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ),
        source=Source(
            (
                Layout("cifar-10-batches-bin", read_binary_batches, CIFAR10_BINARY),
                Layout("cifar-10-batches-py", read_pickled_batches, CIFAR10_PICKLE),
            ),
            ("https://www.cs.toronto.edu/~kriz/",),
            {"cifar-10-binary.tar.gz": "md5:c32a1d4ab5d03f1284b67883e8d87530"},
        ),
    ),
    "digits": DatasetSpec(
        title="Digits",
        protocol="digits",
        load=read_digits,
        packaged=True,
        no_source="comes with the package: there is nothing to fetch or to verify.",
    ),
    "imagenet": DatasetSpec(
        title="ImageNet",
        protocol="imagenet",
        load=read_imagenet,
        find=imagenet_root,
        no_source="has no published files to fetch or to verify: image-net.org gives the images "
        "after registration. Unpack them into imagenet/train and imagenet/val of the data "
        "directory, one folder a class.",
    ),
}
