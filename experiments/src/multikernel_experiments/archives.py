"""Data archives of the experiments, and Gram stacks from them: float32, fitted on training samples only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.datasets import data_home
from multikernel.io.files import DataError


class MissingArray(DataError):
    """An archive lacks an array: a data set of it cannot be used, others can."""


class _Arrays(Mapping[str, NDArray]):
    """The arrays of an archive, read when they are asked for; a missing one is explained."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = np.load(path, allow_pickle=False)

    def __getitem__(self, name: str) -> NDArray:
        if name not in self._file:
            raise MissingArray(f"{self._path.name} has no array {name}: it is not the complete archive")
        return self._file[name]

    def __contains__(self, name: object) -> bool:
        return name in self._file

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.files)

    def __len__(self) -> int:
        return len(self._file.files)


class Archives:
    """The folder of data archives; what was made from them last is kept for the next split.

    Parameters
    ----------
    folder : path, optional
        By default the one that ``MULTIKERNEL_DATA`` names.
    """

    stand_in = False

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = self._find(folder)
        self._kept: dict[str, Any] = {}

    @property
    def key(self) -> str:
        """What tells these data from others."""
        return str(self.folder)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}  # stacks are not sent to other processes

    def _find(self, folder: str | os.PathLike[str] | None) -> Path:
        chosen = data_home() if folder is None else Path(folder)
        if chosen is None:
            raise DataError(
                "experiments need data: set MULTIKERNEL_DATA to the folder that holds the .npz archives, or name it "
                "with --data-home. `multikernel data` lists them and fetches those that have a public home. "
                "A --quick run can do without, on small stand-ins"
            )
        if not chosen.is_dir():
            raise DataError(f"{chosen} is not a folder: name the one that holds the .npz archives")
        return chosen

    def require(self, name: str, files: Sequence[str]) -> dict[str, int]:
        """Sizes of the archives, which results depend on; an error that names the missing ones."""
        missing = [file for file in files if not (self.folder / file).is_file()]
        if missing:
            raise DataError(
                f"experiment {name!r} needs {', '.join(missing)}, not found in {self.folder}. Put the archive there, "
                "or set MULTIKERNEL_DATA to the folder that has it; `multikernel data` says which can be fetched"
            )
        return {file: (self.folder / file).stat().st_size for file in files}

    def load(self, file: str) -> Mapping[str, NDArray]:
        """An archive of arrays, by name."""
        self.require(file, [file])
        try:
            return _Arrays(self.folder / file)
        except (ValueError, OSError) as error:
            raise DataError(f"{self.folder / file} cannot be read as a NumPy archive: {error}") from None

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What ``make`` returns, made anew only when ``name`` is not what was asked for last."""
        if name not in self._kept:
            self._kept = {}  # one at a time: stacks are large
            self._kept[name] = make()
        return self._kept[name]


def from_distances(
    distances: Sequence[NDArray] | NDArray, names: Sequence[str], train: NDArray, test: NDArray
) -> tuple[Any, Any]:
    """Kernels exp(−D / mean D) of distances (F, n, n), the mean over training pairs; stacks to train and test on."""
    from multikernel.gram import DenseStack

    rows = np.concatenate([train, test])
    kernels = np.empty((len(distances), len(rows), len(train)), dtype=np.float32)
    for kernel, D in zip(kernels, distances):
        block = D[np.ix_(rows, train)]
        np.exp(block / -block[: len(train)].mean(), out=kernel)
    n = len(train)
    training = DenseStack(np.ascontiguousarray(kernels[:, :n]), list(names), symmetric=True)
    testing = DenseStack(
        np.ascontiguousarray(kernels[:, n:]),
        list(names),
        symmetric=False,
        self_similarity=np.ones((len(distances), len(test))),
    )
    return training, testing


def from_features(
    X: NDArray, kernels: Sequence[Any], train: NDArray, test: NDArray, *, standardize: bool = True
) -> tuple[Any, Any]:
    """Kernels on columns; means, deviations and bandwidths are those of the training samples."""
    from sklearn.preprocessing import StandardScaler

    from multikernel.gram import family_stack
    from multikernel.kernels import KernelFamily

    A, B = np.asarray(X[train], dtype=np.float32), np.asarray(X[test], dtype=np.float32)
    if standardize:
        scaler = StandardScaler().fit(A)
        A, B = scaler.transform(A), scaler.transform(B)
    family = KernelFamily.fit(list(kernels), A)
    return family_stack(family, A), family_stack(family, B, A)


def from_kernels(K: NDArray, names: Sequence[str], train: NDArray, test: NDArray) -> tuple[Any, Any]:
    """Given kernels (F, n, n), as stacks to train and test on."""
    from multikernel.gram import DenseStack

    stack = DenseStack(np.ascontiguousarray(K, dtype=np.float32), list(names), symmetric=True)
    return stack.take(train, train), stack.take(test, train)


def normalized(stacks: tuple[Any, Any], steps: Any) -> tuple[Any, Any]:
    """Both stacks, normalised with the statistics of the first."""
    from multikernel.gram.normalization import Normalization

    normalization = Normalization(steps)
    return normalization.fit_apply(stacks[0]), normalization.apply(stacks[1])


def shuffled(y: NDArray, n_train: float | int, split: int, n_test: int | None = None) -> tuple[NDArray, NDArray]:
    """The split of that number: stratified, reproducible, different for each number.

    Counts that are more than there are samples, as on stand-in data, are made smaller in proportion; three samples a
    class to train on are kept, for the folds.
    """
    from sklearn.model_selection import StratifiedShuffleSplit

    wanted = n_train + (n_test or 0)
    if n_train > 1 and wanted > len(y):
        n_train = max(int(n_train * len(y) / wanted), 3 * len(np.unique(y)))
        n_test = n_test and min(int(n_test * len(y) / wanted), len(y) - n_train)
    splitter = StratifiedShuffleSplit(1, train_size=n_train, test_size=n_test, random_state=split)
    return next(iter(splitter.split(np.zeros(len(y)), y)))


def drawn(y: NDArray, labels: NDArray, n_train: int, n_test: int, split: int) -> tuple[NDArray, NDArray]:
    """Samples of each class in a random order: the first to train on, the last to test; one is left for that."""
    rng = np.random.default_rng(split)
    train, test = [], []
    for label in labels:
        order = rng.permutation(np.flatnonzero(y == label))
        kept = min(n_train, len(order) - 1)
        train.append(order[:kept])
        test.append(order[max(kept, len(order) - n_test) :])
    return np.concatenate(train), np.concatenate(test)


def unfold(upper: NDArray, n: int) -> NDArray:
    """Symmetric matrices (F, n, n) with a zero diagonal, from upper triangles (F, n (n − 1) / 2)."""
    rows, columns = np.triu_indices(n, 1)
    full = np.zeros((len(upper), n, n), dtype=np.float32)
    for matrix, values in zip(full, upper):
        matrix[rows, columns] = values
        matrix[columns, rows] = values
    return full


def joined(archive: Mapping[str, NDArray], names: Sequence[str]) -> tuple[NDArray, dict[str, slice]]:
    """Views side by side, each flattened to columns; returns X and where each view's columns are."""
    from multikernel.kernels.views import join_views

    views = {name: np.asarray(archive[name], dtype=np.float32) for name in names}
    return join_views({name: view.reshape(len(view), -1) for name, view in views.items()})
