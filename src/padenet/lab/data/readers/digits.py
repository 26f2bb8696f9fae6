"""The digits that come with the package: 8 × 8 pixels of 17 shades, enlarged to 32 × 32.

The file is made by ``tools/make_digits.py``, which names its origin.
"""

from importlib import resources

import numpy as np

from padenet.lab.data.sets import Dataset, in_memory, mean_std
from padenet.lab.data.sources import Arrays

DIGITS = tuple("0123456789")


def read_digits(data_dir: object = None) -> Dataset:
    """Each pixel becomes 4 × 4 equal ones; mean and deviation are those before."""
    with (
        resources.files(__package__).joinpath("digits.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        stored = dict(arrays)

    def part(name: str) -> Arrays:
        images = np.rint(stored[f"{name}_images"][:, None] * (255 / 16)).astype(np.uint8)
        return images, stored[f"{name}_labels"].astype(np.int64)

    def enlarged(name: str) -> Arrays:
        images, labels = part(name)
        return images.repeat(4, axis=2).repeat(4, axis=3), labels

    return in_memory(
        enlarged("train"), enlarged("test"), DIGITS, statistics=mean_std(part("train")[0])
    )
