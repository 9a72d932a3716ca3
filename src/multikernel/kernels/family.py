"""Kernels from short descriptions, fitted and evaluated together: those on the same columns share their work."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone

from multikernel.io.files import near_matches
from multikernel.io.state import attributes, each, labels, part
from multikernel.kernels.approximation import Nystroem
from multikernel.kernels.base import RBF, Cosine, Kernel, Linear, Polynomial, Sigmoid, unique_names
from multikernel.kernels.gene_sets import sets_in_columns
from multikernel.kernels.given import (
    FromDistance,
    FromFunction,
    FromGaussianProcess,
    Precomputed,
    is_gaussian_process_kernel,
)
from multikernel.kernels.histograms import ChiSquared, HistogramIntersection, Laplacian, SpatialPyramid
from multikernel.kernels.quantities import (
    PreparedRows,
    TrainingSet,
    Window,
    checksum,
    describe,
    is_frame,
    refuse_nonfinite,
    row_blocks,
)
from multikernel.runtime.warnings import warn_user

NAMED_KERNELS: dict[str, Callable[..., Kernel]] = {
    "linear": Linear,
    "poly": Polynomial,
    "polynomial": Polynomial,
    "rbf": RBF,
    "laplacian": Laplacian,
    "chi2": ChiSquared,
    "additive_chi2": lambda **parameters: ChiSquared(additive=True, **parameters),
    "intersection": HistogramIntersection,
    "cosine": Cosine,
    "sigmoid": Sigmoid,
    "pyramid": SpatialPyramid,
    "distance": FromDistance,
    "precomputed": Precomputed,
}

# Samples up to which the default kernels are taken as they are, and rank of their features beyond.
LARGE, RANK = 20_000, 200
# Bytes of training distances that are held back for the Gram matrix.
KEEP_BYTES = 256 * 2**20
# Ratio of ranges of columns from which a remark is due, and rows that are enough to see it.
FAR_APART, MOST_ROWS = 100.0, 1000


def as_kernel(candidate: Any) -> Kernel:
    """A kernel object from a kernel, a name like "rbf", a callable or a Gaussian-process kernel of scikit-learn."""
    if isinstance(candidate, Kernel):
        return candidate
    if isinstance(candidate, str):
        if candidate not in NAMED_KERNELS:
            raise ValueError(f"{candidate!r} is not a kernel; {near_matches(candidate, list(NAMED_KERNELS))}")
        return NAMED_KERNELS[candidate]()
    if is_gaussian_process_kernel(candidate):
        return FromGaussianProcess(kernel=candidate)
    if isinstance(candidate, type) and issubclass(candidate, Kernel):
        raise TypeError(f"{candidate.__name__} is a class; write {candidate.__name__}() to make a kernel.")
    if callable(candidate):
        return FromFunction(function=candidate)
    raise TypeError(
        f"{candidate!r} of type {type(candidate).__name__} is not a kernel. Give a Kernel, a name such as 'rbf', "
        "a function of two blocks of rows, or a kernel of sklearn.gaussian_process.kernels."
    )


def as_kernels(kernels: Any, n_samples: int = 0) -> list[Kernel]:
    """A list of kernels from one or several descriptions; for None the default family for that many samples."""
    if kernels is None:
        return default_kernels(n_samples)
    if isinstance(kernels, str) or not isinstance(kernels, Sequence):
        kernels = [kernels]
    if not kernels:
        raise ValueError("kernels is empty; give at least one kernel, or None for the default family.")
    found = []
    for position, candidate in enumerate(kernels):
        try:
            found.append(as_kernel(candidate))
        except (TypeError, ValueError) as error:
            raise type(error)(f"kernels[{position}]: {error}") from None
    return found


def default_kernels(n_samples: int = 0) -> list[Kernel]:
    """Linear, and RBF at ¼, 1 and 4 times the mean squared distance, on all columns.

    Parameters
    ----------
    n_samples : int
        Above 20,000 they are approximated by Nyström features of rank 200, with a warning that says so: the kernels
        themselves have n² entries, which take too long to read.

    Examples
    --------
    >>> [kernel.label for kernel in default_kernels()]
    ['linear', 'rbf(0.25*mean)', 'rbf(mean)', 'rbf(4*mean)']
    """
    kernels = [Linear(), *(RBF(bandwidth=width) for width in ("0.25*mean", "mean", "4*mean"))]
    if n_samples <= LARGE:
        return kernels
    warn_user(
        f"kernels=None with {n_samples:,} samples, more than {LARGE:,}, uses Nystroem(kernel=…, rank={RANK}) for the "
        "default kernels, because n² entries take too long to read. To choose yourself, pass "
        "kernels=multikernel.kernels.default_kernels(), or features of another rank.",
        UserWarning,
    )
    return [Nystroem(kernel=kernel, rank=RANK) for kernel in kernels]


def kernel_grid(
    views: Any = None,
    families: Any = ("rbf",),
    bandwidths: Sequence[float | str] = ("0.25*mean", "mean", "4*mean"),
    *,
    columns: Any = None,
    min_size: int = 1,
) -> list[Kernel]:
    """One kernel per view, family and bandwidth; one per view for families without a bandwidth.

    Parameters
    ----------
    views : dict of name to columns, or sequence of columns, optional
        What each kernel looks at (any ``columns=``); all columns by default.
    families : sequence of names, kernel classes or kernels
        A kernel is a template: its other parameters are kept.
    bandwidths : sequence of numbers or rules
    columns : data frame, AnnData, MuData or sequence of names, optional
        The columns that X has, for views that are sets of genes: genes without a column are left out. A gene is found
        under its name, or behind that of a view, ``rna:TP53``; sets are a view in each view that has their genes.
    min_size : int
        With ``columns``, sets of fewer genes are left out.

    Examples
    --------
    >>> views = {"petals": ["petal length", "petal width"], "sepals": ["sepal length", "sepal width"]}
    >>> for kernel in kernel_grid(views, ["linear", "rbf"], ["mean", "4*mean"]):
    ...     print(kernel.label)
    linear on petals
    rbf(mean) on petals
    rbf(4*mean) on petals
    linear on sepals
    rbf(mean) on sepals
    rbf(4*mean) on sepals
    """
    if columns is not None:
        views = sets_in_columns(views, columns, min_size)
    if isinstance(families, str | Kernel | type):
        families = [families]
    templates = [
        family() if isinstance(family, type) and issubclass(family, Kernel) else as_kernel(family)
        for family in families
    ]
    if not templates:
        raise ValueError("families is empty; name at least one, such as 'rbf'.")
    return [
        _on_view(kernel, view, columns)
        for view, columns in _named_views(views)
        for template in templates
        for kernel in _with_bandwidths(template, bandwidths)
    ]


def _named_views(views: Any) -> list[tuple[str | None, Any]]:
    if views is None:
        return [(None, None)]
    if isinstance(views, Mapping):
        return list(views.items())
    return [(describe(columns), columns) for columns in views]


def _with_bandwidths(template: Kernel, bandwidths: Sequence[float | str]) -> list[Kernel]:
    parameters = template.get_params()
    has_gamma = isinstance(template, RBF) and template.gamma is not None
    if isinstance(template, SpatialPyramid) and template.base is None:
        template = clone(template).set_params(base=ChiSquared())
        parameters = template.get_params()
    target = next((key for key in ("bandwidth", "base__bandwidth") if key in parameters), None)
    if target is None or has_gamma or parameters.get("additive") or parameters.get("base__additive"):
        return [clone(template)]
    return [clone(template).set_params(**{target: bandwidth}) for bandwidth in bandwidths]


def _on_view(kernel: Kernel, view: str | None, columns: Any) -> Kernel:
    if view is None:
        return kernel
    label = kernel.name if kernel.name is not None else kernel._description()
    return kernel.set_params(columns=columns, name=f"{label} on {view}")


class KernelFamily:
    """Kernels fitted on the same training data.

    Parameters
    ----------
    kernels : sequence of fitted Kernel
    names : sequence of str, optional
        The kernels' labels by default; repeats get a suffix ``#2``, ``#3``.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.kernels import RBF, KernelFamily, Linear
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> family = KernelFamily.fit([Linear(), RBF(bandwidth="mean"), RBF(bandwidth="4*mean")], X)
    >>> family.names
    ['linear', 'rbf(mean)', 'rbf(4*mean)']
    >>> family.evaluate(X).shape, family.evaluate(X[:2], X).shape
    ((3, 3, 3), (3, 2, 3))
    """

    _state = attributes(kernels=each(part(Kernel, features="features"), "kernels"), names=labels("kernels"))

    def _sizes(self) -> dict[str, int]:
        return {"kernels": len(self.names), "features": self.kernels[0].n_features_in_}

    def _check_loaded(self) -> None:
        if len({kernel.pairwise for kernel in self.kernels}) > 1:
            raise ValueError("kernels of features are mixed with others")

    def __init__(self, kernels: Sequence[Kernel], names: Sequence[str] | None = None) -> None:
        self.kernels = list(kernels)
        self.names = unique_names([kernel.label for kernel in self.kernels]) if names is None else list(names)
        self._kept: tuple | None = None  # training data, its checksum and precision, and its distances

    @classmethod
    def fit(
        cls, kernels: Any, X: Any, feature_names: Any = None, *, dtype: Any = None, keep: int = KEEP_BYTES
    ) -> KernelFamily:
        """Fit copies of the kernels, of anything :func:`as_kernels` takes, on training data.

        X is an array, CSR matrix or data frame (n, D), for pairwise kernels (n, n) or (n, n, F). ``dtype`` is the
        precision of the distances behind the bandwidths, that of X by default; ``keep`` are the bytes of expensive
        ones (χ², L1) that may be held back for the first ``evaluate(X)``.
        """
        training = TrainingSet(X, feature_names, dtype=dtype, keep=keep)
        fitted = [clone(kernel)._fit(training) for kernel in as_kernels(kernels, training.X.shape[0])]
        if len({kernel.pairwise for kernel in fitted}) > 1:
            mixed = next(kernel.label for kernel in fitted if kernel.pairwise)
            raise ValueError(
                f"kernel {mixed!r} reads a matrix with a column per training sample and others read features: "
                "one X cannot be both. Compute one kind first and pass everything precomputed."
            )
        family = cls(fitted)
        X = training.X
        if training.kept and not is_frame(X):
            family._kept = weakref.ref(X), checksum(X), training.prepared.dtype, training.kept
        return family

    def __len__(self) -> int:
        return len(self.kernels)

    def __repr__(self) -> str:
        return f"KernelFamily({len(self)} kernels: {', '.join(self.names)})"

    def __getstate__(self) -> dict[str, Any]:
        return {"kernels": self.kernels, "names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["kernels"], state["names"])  # type: ignore[misc]

    @property
    def pairwise(self) -> bool:
        """Whether X holds one column per training sample instead of features."""
        return any(kernel.pairwise for kernel in self.kernels)

    @cached_property
    def columns_read(self) -> np.ndarray | None:
        """Columns of X that are the features of all kernels, kernel by kernel; None if there is more to do."""
        if not all(type(kernel) is Linear for kernel in self.kernels):
            return None
        return np.concatenate([kernel.columns_ for kernel in self.kernels])

    def fit_present(self, X: np.ndarray, missing: np.ndarray, feature_names: Any = None) -> KernelFamily:
        """The family with kernels fitted again on samples that have their views, where some are ``missing`` (F, n).

        X (n, D) has no NaN; what stands in for missing values does not count.
        """
        present: dict[bytes, TrainingSet] = {}
        for k, gone in enumerate(missing):
            if gone.any():
                if gone.all():
                    raise ValueError(f"kernel {self.names[k]!r} is missing for every sample: leave it out.")
                training = present.setdefault(gone.tobytes(), TrainingSet(X[~gone], feature_names))
                kernel = clone(self.kernels[k])
                if callable(kernel.columns):
                    kernel.set_params(columns=self.kernels[k].columns_)
                self.kernels[k] = kernel._fit(training)
        return self

    @property
    def views(self) -> dict[str, np.ndarray]:
        """Kernels that look at the same columns, by the name of the view."""
        views: dict[str, np.ndarray] = {}
        for members in self._by_columns().values():
            name = self.names[members[0]].rpartition(" on ")[2]
            views[name if name not in views else self.names[members[0]]] = np.array(members)
        return views

    def _by_columns(self) -> dict[bytes, list[int]]:
        groups: dict[bytes, list[int]] = {}
        for k, kernel in enumerate(self.kernels):
            groups.setdefault(kernel.columns_.tobytes(), []).append(k)
        return groups

    def missing(self, X: Any) -> np.ndarray | None:
        """Which samples lack the view of which kernel: all its columns are NaN. Shape (F, n), or None if none does.

        NaN in some of the columns only is an error, because nothing can be said about the rest.
        """
        if not isinstance(X, np.ndarray) or not np.isnan(X).any():
            return None
        gone = np.zeros((len(self), len(X)), dtype=bool)
        for name, members in self.views.items():
            holes = np.isnan(X[:, self.kernels[members[0]].columns_])
            gone[members] = holes.all(axis=1)
            if (partly := holes.any(axis=1) & ~gone[members[0]]).any():
                row = int(partly.argmax())
                column = self.kernels[members[0]].columns_[holes[row].argmax()]
                raise ValueError(
                    f"X contains NaN in some columns of view {name!r}, but not in all, in {partly.sum()} of {len(X)} "
                    f"samples, the first at row {row}, column {column}: "
                    "impute them, for example with SimpleImputer. A view is missing where all its columns are NaN."
                )
        return gone

    def take(self, indices: Iterable[int]) -> KernelFamily:
        """Some of the kernels, as a family."""
        chosen = [int(index) for index in indices]
        return KernelFamily([self.kernels[k] for k in chosen], [self.names[k] for k in chosen])

    def prepare(self, X: Any, dtype: Any = None) -> PreparedRows:
        """Make data ready once for many calls of :meth:`evaluate`; ``.take(rows)`` gives part of it."""
        prepared = self._as_prepared(X, dtype)
        for kernel in self.kernels:
            for source in kernel._quantity().sources():
                prepared.rows(source)
        return prepared

    def evaluate(self, X: Any, Z: Any = None, out: np.ndarray | None = None, dtype: Any = None) -> np.ndarray:
        """Kernel matrices (F, n, m) between the rows of X and Z, or of X with itself, which are exactly symmetric.

        X and Z are as in :meth:`fit`, or :class:`PreparedRows`; pairwise kernels take X (m, n_train[, F]) and no Z.
        ``out`` is where to write, ``dtype`` the precision, that of ``out`` or X by default.
        """
        dtype = out.dtype if dtype is None and out is not None else dtype
        source = self._as_prepared(X, dtype)
        other = source if Z is None else self._as_prepared(Z, source.dtype)
        if self.pairwise and Z is not None:
            raise ValueError("Pairwise kernels read their values from X; call evaluate(X) without Z.")
        n_columns = source.X.shape[1] if self.pairwise else len(other)
        shape = (len(self), len(source), n_columns)
        if out is None:
            out = np.empty(shape, source.dtype)
        elif out.shape != shape:
            raise ValueError(f"out has shape {out.shape}, but the kernel matrices have shape {shape}.")
        square = Z is None and not self.pairwise
        kept = self._take_kept(X, source.dtype) if square else {}
        for columns, members in self._by_columns().items():  # which may share quantities
            mine = {key: kept.pop(key) for key in list(kept) if key[1] == columns}  # freed with the group
            for block, (start, stop) in enumerate(row_blocks(len(source), n_columns)):
                window = Window(source, other, start, stop, start if square else 0, square=square)
                window.values.update((key, blocks[block]) for key, blocks in mine.items())
                self._evaluate_window(members, window, out)
            for prepared in (source, other):
                if prepared is not X and prepared is not Z:
                    prepared.clear()  # each group has rows of its own; holding all would double X
        return out

    def _evaluate_window(self, members: list[int], window: Window, out: np.ndarray) -> None:
        for k in members:
            target = out[k, window.start : window.stop, window.first :]
            self.kernels[k]._apply(window(self.kernels[k]._quantity()), target)
            self._check_finite(k, target, window)
            if window.square:
                window.mirror(out[k])

    def diagonal(self, X: Any) -> np.ndarray:
        """k(x, x) for each kernel and row of X, shape (F, n)."""
        prepared = self._as_prepared(X, np.float64 if not isinstance(X, PreparedRows) else None)
        return np.stack([kernel._diagonal(prepared) for kernel in self.kernels])

    def remark_on_scales(self, X: Any) -> str | None:
        """What to say if columns of one kernel have very different ranges; None if there is nothing to say.

        Constant columns do not count. Of anything but an array nothing is said.
        """
        if not isinstance(X, np.ndarray):
            return None
        ranges = np.ptp(X[np.unique(np.linspace(0, len(X) - 1, MOST_ROWS).astype(int))], axis=0)
        for kernel in self.kernels:
            if len(kernel.columns_) < 2:
                continue
            own = np.where(ranges[kernel.columns_] > 0.0, ranges[kernel.columns_], np.nan)
            if not kernel.needs_scaling or np.isfinite(own).sum() < 2:
                continue
            ends = np.nanargmax(own), np.nanargmin(own)
            ratio = own[ends[0]] / own[ends[1]]
            if ratio > FAR_APART:
                names = kernel.column_names_
                large, small = (f"column {kernel.columns_[k]}" if names is None else repr(names[k]) for k in ends)
                return (
                    f"columns of kernel {kernel.label!r} differ in range by a factor of {ratio:.0e}: {large} "
                    f"dominates, {small} hardly counts. Unless their units matter, scale the columns first: "
                    "make_pipeline(StandardScaler(), ...) or --scale standard."
                )
        return None

    def _as_prepared(self, X: Any, dtype: Any) -> PreparedRows:
        if isinstance(X, PreparedRows):
            return X
        prepared = PreparedRows(X, dtype)
        for kernel in self.kernels:
            kernel._check_features(prepared.X)
        return prepared

    def _check_finite(self, k: int, values: np.ndarray, window: Window) -> None:
        # NaN and inf survive min and max, which make no temporary array
        if values.size == 0 or (np.isfinite(values.min()) and np.isfinite(values.max())):
            return
        for prepared in (window.X, window.Z):
            refuse_nonfinite(prepared.X, self.names[k])
        if isinstance(self.kernels[k], FromFunction):
            count = int((~np.isfinite(values)).sum())
            raise ValueError(
                f"kernels[{k}] ({self.names[k]!r}) returned {count} values that are NaN or infinite for samples that "
                "are finite: check the function."
            )
        raise FloatingPointError(
            f"kernels[{k}] ({self.names[k]!r}) overflows {values.dtype}: rescale the data (StandardScaler), lower "
            "degree or gamma, or compute in float64."
        )

    def _take_kept(self, X: Any, dtype: np.dtype) -> dict[Any, list[np.ndarray]]:
        """Training distances held back by :meth:`fit`, if X is the training data; they are given out once."""
        if self._kept is None:
            return {}
        reference, content, precision, blocks = self._kept
        # the same object may have been changed in place since: compare contents too
        if reference() is not X or dtype != precision or checksum(X) != content:
            return {}
        self._kept = None
        return blocks
