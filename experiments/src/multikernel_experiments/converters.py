"""Public formats to the arrays of the archives."""

from __future__ import annotations

import bz2
import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multikernel.io.files import DataError

Arrays = dict[str, NDArray]
MFEAT_VIEWS = ("fac", "fou", "kar", "mor", "pix", "zer")
YEAST_COLUMNS = 79, 24


def read_idx(path: Path) -> NDArray:
    """An array in the IDX format of MNIST, compressed with gzip or not.

    Its first bytes are 0, 0, the type (8 for unsigned bytes), the number of axes, then each length as a big-endian
    32-bit number.
    """
    data = path.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError(f"{path} is not an IDX file of unsigned bytes: it begins with {data[:4]!r}")
    axes = data[3]
    shape = struct.unpack(f">{axes}I", data[4 : 4 + 4 * axes])
    values = np.frombuffer(data, np.uint8, offset=4 + 4 * axes)
    if values.size != np.prod(shape):
        raise DataError(f"{path} has {values.size} values, and its head says {' × '.join(map(str, shape))}")
    return values.reshape(shape)


def mnist(files: Mapping[str, Path]) -> Arrays:
    """Images (n, 28, 28) and labels, as unsigned bytes."""
    return {
        "X_train": read_idx(files["train-images"]),
        "y_train": read_idx(files["train-labels"]),
        "X_test": read_idx(files["t10k-images"]),
        "y_test": read_idx(files["t10k-labels"]),
    }


def member(path: Path, name: str) -> bytes:
    """The content of a file in a zip, wherever it is in there, in a tar in the zip too; or of the file itself."""
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            if Path(entry).name == name:
                return archive.read(entry)
        for entry in archive.namelist():
            if entry.endswith((".tar", ".tar.gz", ".tgz")):
                with tarfile.open(fileobj=io.BytesIO(archive.read(entry))) as inner:
                    found = next((m for m in inner.getmembers() if Path(m.name).name == name), None)
                    stream = inner.extractfile(found) if found is not None else None
                    if stream is not None:
                        return stream.read()
        raise DataError(f"{path} has no file {name}; it has {', '.join(archive.namelist()[:10])}")


def mfeat(files: Mapping[str, Path]) -> Arrays:
    """Six views of 2000 digits, 200 of each in turn, in alphabetical order."""
    views = {}
    for k, name in enumerate(MFEAT_VIEWS):
        text = member(files["mfeat"], f"mfeat-{name}").decode("ascii")
        views[f"view_{k:02d}"] = np.loadtxt(io.StringIO(text), dtype=np.float32, ndmin=2)
    n = len(views["view_00"])
    return {**views, "y": np.repeat(np.arange(10), n // 10), "names": np.array(MFEAT_VIEWS)}


def table(
    content: bytes,
    *,
    label: int = -1,
    drop: Sequence[int] = (),
    missing: str = "?",
    where: str = "the file",
) -> tuple[NDArray, NDArray]:
    """Features and labels of lines with commas; lines with missing values are left out, labels counted as sorted.

    Examples
    --------
    >>> from multikernel_experiments.converters import table
    >>> X, y = table(b"1,2,R\\n3,?,M\\n5,6,M\\n")
    >>> X.tolist(), y.tolist()
    ([[1.0, 2.0], [5.0, 6.0]], [1, 0])
    """
    rows = [line.split(",") for line in content.decode("ascii", "replace").splitlines() if line.strip()]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        raise DataError(f"{where}: lines have {sorted(widths)} columns, not all the same number")
    rows = [[cell.strip() for cell in row] for row in rows]
    rows = [row for row in rows if missing not in row]
    label %= len(rows[0])
    columns = [k for k in range(len(rows[0])) if k != label and k not in drop]
    try:
        X = np.array([[float(row[k]) for k in columns] for row in rows], dtype=np.float32)
    except ValueError as error:
        raise DataError(f"{where}: {error}") from None
    _, y = np.unique([row[label] for row in rows], return_inverse=True)
    return X, y.astype(np.int16)


# name in the archive: file in the zip, column of the label, columns that are not features
UCI = {
    "Sonar": ("sonar.all-data", -1, ()),
    "Ionosphere": ("ionosphere.data", -1, (1,)),  # its second column is zero everywhere
    "Glass": ("glass.data", -1, (0,)),
    "LetterRecognition": ("letter-recognition.data", 0, ()),
    "spam": ("spambase.data", -1, ()),
    "BreastCancer": ("breast-cancer-wisconsin.data", -1, (0,)),
}


def uci(files: Mapping[str, Path]) -> Arrays:
    """Features and labels of each table that was fetched."""
    arrays = {}
    for name, path in files.items():
        file, label, drop = UCI[name]
        content = member(path, file)
        arrays[f"{name}_X"], arrays[f"{name}_y"] = table(content, label=label, drop=drop, where=f"{path} ({file})")
    return arrays


def yeast(files: Mapping[str, Path]) -> Arrays:
    """Two views and 14 labels, from two files in the format of LIBSVM."""
    from sklearn.datasets import load_svmlight_files
    from sklearn.preprocessing import MultiLabelBinarizer

    streams = [io.BytesIO(_unpacked(files[part])) for part in ("train", "test")]
    A, a, B, b = load_svmlight_files(streams, multilabel=True, n_features=sum(YEAST_COLUMNS))
    X = np.vstack([A.toarray(), B.toarray()]).astype(np.float32)
    Y = MultiLabelBinarizer(classes=range(14)).fit_transform([[int(k) for k in labels] for labels in [*a, *b]])
    first = YEAST_COLUMNS[0]
    names = np.array(["gene expression", "phylogenetic profile"])
    return {"view_00": X[:, :first], "view_01": X[:, first:], "Y": Y.astype(np.uint8), "view_names": names}


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return bz2.decompress(data) if data[:3] == b"BZh" else data
