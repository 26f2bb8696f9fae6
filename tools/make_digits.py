"""Make src/padenet/lab/data/readers/digits.npz, the images that come with the package.

The 1,797 images of 8 × 8 pixels from 0 to 16 that scikit-learn carries: the test part of
"Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository, 1998, https://doi.org/10.24432/C50P49, CC BY 4.0.

Of each class 36 images are the test set, spread evenly over the order of the file, in which the
writers follow one another; the other 1,437 are for training. Both keep that order.

Run: python tools/make_digits.py
Needs scikit-learn.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

OUT = Path(__file__).parent.parent / "src/padenet/lab/data/readers/digits.npz"
TEST_PER_CLASS = 36


def main() -> None:
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    assert images.shape == (1797, 8, 8) and (images == digits.images).all() and images.max() == 16
    test = np.zeros(len(labels), bool)
    for label in range(10):
        members = np.flatnonzero(labels == label)
        middles = (np.arange(TEST_PER_CLASS) + 0.5) / TEST_PER_CLASS  # of 36 equal parts
        test[members[(middles * len(members)).astype(int)]] = True
    np.savez_compressed(
        OUT,
        train_images=images[~test],
        train_labels=labels[~test],
        test_images=images[test],
        test_labels=labels[test],
    )
    print(f"{OUT.name}: {(~test).sum()} + {test.sum()} images, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
