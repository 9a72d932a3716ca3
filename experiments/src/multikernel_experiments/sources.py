"""Where the data archives come from: addresses, sums and licences; how to make those without a public home."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from multikernel.io.files import DataError, atomic_write
from multikernel_experiments import converters
from multikernel_experiments.download import Progress, download

MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist/"
UCI = "https://archive.ics.uci.edu/static/public/"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/"


@dataclass(frozen=True)
class Part:
    """A file to download: its address, its name here, and its SHA-256 sum if that is known beforehand.

    ``content`` is the sum of what becomes of it (see `content_sum`) in the archives that the figures in the
    documentation are of.
    """

    url: str
    file: str
    sha256: str = ""
    content: str = ""


@dataclass(frozen=True)
class Source:
    """An archive that can be fetched.

    Parameters
    ----------
    archive : str
        The file that protocols read.
    about, licence : str
    convert : callable
        Arrays of the archive from the paths of the parts, by their keys.
    parts : mapping of str to Part
    content : str
        Sum of all arrays, if the archive is complete; see `content_sum`.
    lacks : str
        What the archive of the experiments has beyond this.
    """

    archive: str
    about: str
    licence: str
    convert: Callable[[Mapping[str, Path]], converters.Arrays]
    parts: Mapping[str, Part] = field(default_factory=dict)
    content: str = ""
    lacks: str = ""


def _uci(number: int, name: str, content: str) -> Part:
    return Part(f"{UCI}{number}/{name}.zip", f"{name.replace('+', '-')}.zip", content=content)


SOURCES: dict[str, Source] = {
    "mnist": Source(
        "mnist.npz",
        "70,000 images of handwritten digits",
        "CC BY-SA 3.0",
        converters.mnist,
        {
            "train-images": Part(
                MNIST + "train-images-idx3-ubyte.gz",
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels": Part(
                MNIST + "train-labels-idx1-ubyte.gz",
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            "t10k-images": Part(
                MNIST + "t10k-images-idx3-ubyte.gz",
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            "t10k-labels": Part(
                MNIST + "t10k-labels-idx1-ubyte.gz",
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        },
        content="80c75a9b2f7272642be4eb39a3d1281437acb68411544ff9825522dc12a5867e",
    ),
    "mfeat": Source(
        "mfeat.npz",
        "2,000 handwritten digits in six views",
        "CC BY 4.0",
        converters.mfeat,
        {"mfeat": _uci(72, "multiple+features", "")},
        content="5140e613fcd54f4ae077f9b268eecd4ae1de60e0de2d14f823764c313aed5cda",
    ),
    "uci": Source(
        "uci_pack.npz",
        "tables of the UCI repository: Sonar, Ionosphere, Glass, LetterRecognition, spam, BreastCancer",
        "CC BY 4.0",
        converters.uci,
        {
            "Sonar": _uci(
                151,
                "connectionist+bench+sonar+mines+vs+rocks",
                "36a61ccd1e3bb65c8af4c5120bcb8226f21c40f789e1a6a82f98a05acc215d9d",
            ),
            "Ionosphere": _uci(52, "ionosphere", "984928d8b6c0abc957dfcdb97df2a11d42f63b6c8d1ea294b5b712f7d3fcdd27"),
            "Glass": _uci(
                42, "glass+identification", "254d144130edce02a7bfdf81994a199bf8ff0bff78dd42464eeb5d9384fe76b4"
            ),
            "LetterRecognition": _uci(
                59, "letter+recognition", "167cda2cac7632887ecb1b84a2ea3f257affde23b29b5898c25bab689f46d711"
            ),
            "spam": _uci(94, "spambase", "15aa70be0b3566f69a63a8e2bb7e5c207d664e7352fb4ff7b5833eb8a03be478"),
            "BreastCancer": _uci(
                15,
                "breast+cancer+wisconsin+original",
                "16be03b9235fc66d2f3c9a3f7c35c99e56860a56303def42a182ce6a272d076d",
            ),
        },
        lacks="DNA, musk, PimaIndiansDiabetes, Satellite, Shuttle, Vehicle and Vowel",
    ),
    "yeast": Source(
        "yeast_ml.npz",
        "2,417 genes of yeast in two views, 14 labels",
        "research use; see the LIBSVM page of data sets",
        converters.yeast,
        {
            "train": Part(LIBSVM + "yeast_train.svm.bz2", "yeast_train.svm.bz2"),
            "test": Part(LIBSVM + "yeast_test.svm.bz2", "yeast_test.svm.bz2"),
        },
        content="1beb1375ebc5d9c224d8e6ece79549d58ee25d8f66cf42de1db9c64ff771af04",
    ),
}

# archive: why it cannot be fetched, and how to make it
NOT_FETCHED = {
    "flower17_dist.npz": "computed from the images of the Oxford flowers: D_triu (7, n (n − 1) / 2) upper triangles "
    "of χ² distances, names, y, and trn1, val1, tst1 … 3",
    "flower17_images.zip": "the photographs themselves, class/image_0001.jpg, their longest side 192 pixels",
    "flower17_views.npz": "histograms of the same images, each (n, cells, words), with y and the same splits",
    "caltech102_views.npz": "histograms of 30 images of each class of Caltech-101, each (n, cells, words), gist "
    "(n, 512), y, and trn1, tst1 … 3",
    "voc07_views.npz": "histograms of images of PASCAL VOC 2007, each (n, cells, words), gist (n, 512), Y (n, 20) "
    "with 1, −1 and 0 for difficult, classes, train, test",
    "breast_tcga.npz": "mrna_train, mirna_train, protein_train, mrna_test, mirna_test, y_train, y_test, classes, as "
    "in the R package mixOmics (breast.TCGA)",
    "msrc_v1.npz": "view_00 … view_04 and y of the MSRC-v1 images; authors of multi-view methods pass them on",
    "football_kernels.npz": "K (9, 248, 248) and y of the football data of multi-view clustering",
    "yale_kernels.npz": "K (5, 165, 165) and y of the Yale faces of multi-kernel clustering",
    "mfeat_18kernels.npz": "made from mfeat: half of the samples each in Xtr, ytr and Xte, yte; for each of 18 "
    "kernels columns mask (18, 649), widths g (18,) and factors scale (18,)",
}


def content_sum(arrays: Mapping[str, np.ndarray], names: Sequence[str] = ()) -> str:
    """SHA-256 over names, types, shapes and values of arrays, all or some, in alphabetical order."""
    total = hashlib.sha256()
    for name in sorted(names or arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def fetch(
    name: str, folder: Path, *, say: Callable[[str], None] = lambda text: None, progress: Progress | None = None
) -> Path:
    """Download the parts of a source, make the archive of them, and return its path.

    Downloads are kept in ``folder/downloads``. An archive that is there already stays.
    """
    source = SOURCES[name]
    target = folder / source.archive
    if target.exists():
        raise DataError(f"{target} is there already: remove it to fetch it anew")
    files = {}
    for key, part in source.parts.items():
        path = folder / "downloads" / part.file
        say(f"{part.url} ({'its sum is known' if part.sha256 else 'its sum is kept for the next time'})")
        download(part.url, path, sha256=part.sha256, progress=progress or (lambda done, total: None))
        files[key] = path
    arrays = source.convert(files)
    with atomic_write(target) as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    for text in differences(source, arrays):
        say(f"note: {text}")
    return target


def differences(source: Source, arrays: Mapping[str, np.ndarray]) -> list[str]:
    """What is not as in the archives that the figures in the documentation are of."""
    found = []
    compared = [name for name in arrays if name != "view_names"]
    if source.content and content_sum(arrays, compared) != source.content:
        found.append(f"{source.archive} is not exactly the one that the documentation has figures of")
    for key, part in source.parts.items():
        if part.content and content_sum(arrays, [f"{key}_X", f"{key}_y"]) != part.content:
            found.append(f"{key} in {source.archive} is not exactly the one that the documentation has figures of")
    return [*found, *([f"{source.archive} lacks {source.lacks}"] if source.lacks else [])]
