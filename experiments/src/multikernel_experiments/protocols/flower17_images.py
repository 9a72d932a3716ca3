"""Oxford flowers from their photographs: seven kernels made here, beside those of given distances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.images import visual_kernels
from multikernel_experiments import archives as a
from multikernel_experiments.findings.score_figures import gains_over_baseline
from multikernel_experiments.protocol import Protocol, Task
from multikernel_experiments.protocols import flower17

IMAGES = "flower17_images.zip"
PIXELS, GIVEN = "from pixels", "given distances"


def photographs(archives: a.Archives, names: NDArray) -> list[Any]:
    """Contents of the image files, or images, in the order of their names."""
    files: Mapping[str, Any] = archives.load(IMAGES)
    place = {path.rpartition("/")[2]: path for path in files}
    return [files[place[str(name)]] for name in names]


def task(archives: a.Archives, setting: str, split: int, quick: bool) -> Task:
    if setting == GIVEN:
        return flower17.task(archives, setting, split, quick)
    archive = archives.load(flower17.FILE)
    y = archive["y"]
    train, val, test = (archive[f"{part}{split + 1}"].astype(int) for part in ("trn", "val", "tst"))
    both = np.concatenate([train, val])
    training, testing = archives.once(f"{IMAGES} {split}", lambda: _stacks(archives, archive["image"], both, test))
    fold = np.arange(len(train)), np.arange(len(train), len(both))
    return Task(training, testing, y[both], y[test], [fold])


def _stacks(archives: a.Archives, names: NDArray, train: NDArray, test: NDArray) -> tuple[Any, Any]:
    """Words, bandwidths and all else that is learnt comes from the images to train on."""
    images = photographs(archives, names)
    cues, kernels = visual_kernels("flower17", random_state=0, n_jobs=-1)
    cues.fit([images[k] for k in train])
    return a.from_features(cues.transform(images), kernels, train, test, standardize=False)


PROTOCOL = Protocol(
    name="flower17-images",
    title="Flower17 from pixels",
    about="Seven kernels of colour, SIFT, SIFT on edges, opponent SIFT, gradients, self-similarity and texture, made "
    "from photographs whose longest side is 192 pixels, beside those of given distances, which were made from the "
    "originals. Visual words are learnt from the 1020 images of training and validation, "
    "parameters chosen on the validation images, and 340 images scored, on three given splits. The papers' kernels "
    "are of segmented images, with flowers cut out of their background.",
    source="[YMBCK10, Table 3], [NZ08]",
    files=(flower17.FILE, IMAGES),
    entries=flower17.ENTRIES,
    task=task,
    settings=(PIXELS, GIVEN),
    setting_title="kernels",
    published_row={entry.key: entry.published for entry in flower17.ENTRIES if entry.published},
    figures=(gains_over_baseline,),
    minutes=20,
)
