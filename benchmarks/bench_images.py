"""Images a second of CPU time, by descriptor, and the memory that they take.

    python benchmarks/bench_images.py [--images 60] [--family caltech39]

On photographs of Flower17 if ``MULTIKERNEL_DATA`` names the folder of their archive, else on images made by code of
the same size. One process, one thread of BLAS; reading the image and, for visual words, finding the nearest of 300
are included, learning the words is apart. Times are of the processor: other work on the machine changes them less.
"""

from __future__ import annotations

import argparse
import resource
import time
import zipfile

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from multikernel.datasets import data_home
from multikernel.images import visual_kernels


def photographs(count: int) -> tuple[str, list]:
    """Contents of image files, spread over the archive, or arrays."""
    path = None if data_home() is None else data_home() / "flower17_images.zip"
    if path is None or not path.is_file():
        return "made by code", list(np.random.default_rng(0).random((count, 144, 192, 3)))
    with zipfile.ZipFile(path) as archive:
        names = [name for name in sorted(archive.namelist()) if name.endswith(".jpg")]
        return path.name, [archive.read(names[k]) for k in np.linspace(0, len(names) - 1, count).astype(int)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--family", default="caltech39")
    options = parser.parse_args()
    source, images = photographs(options.images)
    print(f"{len(images)} images, {source}")
    print(f"{'cue':17}{'descriptor':24}{'learn words':>12}{'images/s':>10}{'columns':>9}{'peak':>9}")
    total = 0.0
    with threadpool_limits(1):
        for name, transformer in visual_kernels(options.family)[0].transformer_list:
            cue = clone(transformer)
            cue.fit(images[:2]).transform(images[:2])  # imports
            start = time.process_time()
            cue.fit(images)
            learnt = time.process_time()
            X = cue.transform(images)
            seconds = (time.process_time() - learnt) / len(images)
            total += seconds
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            row = f"{name:17}{cue!s:24}{learnt - start:10.1f} s{1 / seconds:10.1f}{X.shape[1]:9}{peak:6.0f} MB"
            print(row, flush=True)
    print(f"all: {1000 * total:.0f} ms of CPU an image")


if __name__ == "__main__":
    main()
