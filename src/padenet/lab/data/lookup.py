"""Data sets by name: whether they are here, and as records."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, overload

from padenet.core import unknown
from padenet.lab.data.local import PathLike, data_home, difference, find
from padenet.lab.data.sets import Dataset, Folder, in_memory
from padenet.lab.data.sources import LocalCopy, Source
from padenet.lab.data.table import DATASETS, DatasetSpec

Datasets = Mapping[str, DatasetSpec]


def find_spec(name: str, datasets: Datasets = DATASETS) -> DatasetSpec:
    if name not in datasets:
        raise unknown("data set", name, datasets)
    return datasets[name]


def find_source(name: str, datasets: Datasets = DATASETS) -> Source:
    """The published files of a set, or an error that says why it has none."""
    spec = find_spec(name, datasets)
    if spec.source is None:
        raise ValueError(f"{name} {spec.no_source}")
    return spec.source


def locate(
    name: str, data_dir: PathLike | None = None, *, datasets: Datasets = DATASETS
) -> LocalCopy:
    """The complete set in the data directory, or an error that says where it was looked for."""
    source, home = find_source(name, datasets), data_home(data_dir)
    copy = find(source, home)
    if copy is None:
        folders = ", ".join(str(home / layout.folder) for layout in source.layouts)
        raise FileNotFoundError(f"{name} is not in {folders}. {advice(name, data_dir)}")
    if copy.missing:
        names = ", ".join(copy.missing)
        raise FileNotFoundError(
            f"{name} is incomplete: {copy.folder} has no {names}. {advice(name, data_dir)}"
        )
    return copy


def advice(name: str, data_dir: PathLike | None) -> str:
    option = "" if data_dir is None else f" --data-dir {data_dir}"
    return (
        f"Get it with `padenet data fetch {name}{option}`, or name the directory that has it: "
        "data_dir, --data-dir or the environment variable PADENET_DATA."
    )


def verify_files(
    name: str, data_dir: PathLike | None = None, *, datasets: Datasets = DATASETS
) -> LocalCopy:
    """The copy here, after a check of every file against its published digest."""
    copy = locate(name, data_dir, datasets=datasets)
    wrong = [
        reason
        for file, path in copy.files.items()
        if (reason := difference(path, copy.layout.files[file]))
    ]
    if wrong:
        raise ValueError(f"{'; '.join(wrong)}. {advice(name, data_dir)}")
    return copy


@overload
def load(
    name: Literal["mnist", "fashion-mnist", "cifar10", "digits"],
    data_dir: PathLike | None = ...,
    *,
    verify: bool = ...,
) -> Dataset: ...
@overload
def load(
    name: Literal["imagenet"], data_dir: PathLike | None = ..., *, verify: bool = ...
) -> Folder: ...
@overload
def load(name: str, data_dir: PathLike | None = ..., *, verify: bool = ...) -> Dataset | Folder: ...
def load(name: str, data_dir: PathLike | None = None, *, verify: bool = False) -> Dataset | Folder:
    """The data set of that name: "mnist", "fashion-mnist", "cifar10", "digits" or "imagenet".

    The 28 × 28 images of the MNISTs get a black border of 2 pixels. The 8 × 8 images of digits,
    which come with the package, are enlarged: each pixel becomes 4 × 4 equal ones.

    Args:
        name: One of ``DATASETS``.
        data_dir: The directory to look in; by default that of the environment variable
            PADENET_DATA, else ``~/.cache/padenet``.
        verify: Whether to check each file against its published digest first.

    Returns:
        A ``Dataset``, for "imagenet" a ``Folder``.
    """
    spec = find_spec(name)
    if spec.load is not None:
        if verify and not spec.packaged:
            raise ValueError(f"{name} has no published digests: load it with verify=False.")
        return replace(spec.load(data_dir), name=name)
    check = verify_files if verify else locate
    copy = check(name, data_dir)
    try:
        train, test = copy.layout.read(copy)
    except ValueError as error:
        raise ValueError(f"{error} {advice(name, data_dir)}") from error
    return in_memory(train, test, spec.classes, name=name)


def check_there(name: str, data_dir: PathLike | None = None) -> None:
    """An error that says where it was looked for, if the data set is not there."""
    spec = find_spec(name)
    if spec.source is not None:
        locate(name, data_dir)
    elif spec.find is not None:
        spec.find(data_home(data_dir))
