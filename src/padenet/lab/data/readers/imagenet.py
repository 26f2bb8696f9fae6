"""ImageNet, as it is unpacked: the folders train and val, with one folder a class."""

from pathlib import Path

from padenet.lab.data.folder import ImageFolder
from padenet.lab.data.local import PathLike, data_home
from padenet.lab.data.sets import Folder

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def imagenet_root(home: Path) -> Path:
    """The folder of train and val: ``home/imagenet``, or ``home`` itself."""
    roots = [home / "imagenet", home]
    for root in roots:
        if (root / "train").is_dir() and (root / "val").is_dir():
            return root
    raise FileNotFoundError(
        f"imagenet: no folders train and val in {' or '.join(map(str, roots))}. Get the images "
        "from image-net.org (registration is needed), unpack them into one folder a class, "
        "and name the directory: data_dir, --data-dir or the environment variable PADENET_DATA."
    )


def read_imagenet(data_dir: PathLike | None = None) -> Folder:
    root = imagenet_root(data_home(data_dir))
    train, test = ImageFolder(root / "train", train=True), ImageFolder(root / "val", train=False)
    if train.classes != test.classes:
        odd = sorted(set(train.classes) ^ set(test.classes))
        raise ValueError(
            f"{root}: train has {len(train.classes)} classes, val {len(test.classes)}; only in one "
            f"of them: {', '.join(odd[:5])}{', …' if len(odd) > 5 else ''}. Use the same folders."
        )
    return Folder("imagenet", train, test, train.classes, MEAN, STD)
