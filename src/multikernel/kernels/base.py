"""What every kernel has in common, parameters, columns, bandwidths, fitting; and kernels of inner products."""

from __future__ import annotations

import contextlib
import functools
import numbers
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from multikernel.io.files import near_matches
from multikernel.io.state import COUNT, POSITIVE, REAL, Maybe, attributes, labels, optional, positions, reals, text
from multikernel.kernels.quantities import (
    Cosines,
    InnerProducts,
    PreparedRows,
    Quantity,
    RawProducts,
    SquaredDistances,
    TrainingSet,
    as_data,
    column_variance,
    describe,
    in_chunks,
    names_of,
    take_columns,
)
from multikernel.runtime.clock import over_rows

# Distances whose exponentials are taken at a time: they stay in the second-level cache.
EXPONENTIALS = 32768
RULES = ("mean", "median", "scale")
_MULTIPLE = re.compile(r"\s*(?:([0-9.eE+-]+)\s*\*\s*)?([a-z]+)\s*")
Class = TypeVar("Class", bound=type)


@dataclass_transform(kw_only_default=True, eq_default=False)
def parameters(cls: Class) -> Class:
    """Class decorator: annotated attributes become parameters of the constructor, to be given by name."""
    dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    return cls


@parameters
class Kernel(BaseEstimator):
    """Base class of kernels: k(x, z) = f(quantity of the pair), on some columns of the data.

    A kernel is a value: its parameters say what it is (``==``, ``hash``, ``sklearn.base.clone``), and fitting only
    adds attributes that end in an underscore. Subclasses define ``_quantity``, what is computed for each pair and
    shared between kernels, and ``_diagonal``; ``_apply`` where the kernel is a function of the quantity, and
    ``_fit_parameters`` where something depends on the data.

    Parameters
    ----------
    columns : names, positions, slice, mask or callable, optional
        Columns that the kernel looks at, as in ``ColumnTransformer``; all by default.
    name : str, optional

    Attributes
    ----------
    columns_ : ndarray of int, shape (d,)
        Positions of the columns that the kernel looks at.
    column_names_ : list of str or None
    n_features_in_ : int
        Columns of the training data in all.
    """

    #: False where the kernel is known not to be positive semi-definite.
    psd: ClassVar[bool] = True
    #: Whether :meth:`features` gives vectors whose inner products are the kernel.
    has_features: ClassVar[bool] = False
    #: Whether X holds one column per training sample (distances, kernel values) instead of features.
    pairwise: ClassVar[bool] = False
    #: Whether the ranges of the columns decide how much each of them counts.
    needs_scaling: ClassVar[bool] = False
    _short: ClassVar[str] = "kernel"

    columns: Any = None
    name: str | None = None

    _state: ClassVar = attributes(
        columns_=positions("selected", below="features"),
        column_names_=optional(labels("selected")),
        n_features_in_=COUNT,
        name=optional(text),
    )

    @classmethod
    @functools.cache  # scikit-learn would look at the signature for each of many kernels, several times
    def _get_param_names(cls) -> list[str]:
        return super()._get_param_names()

    def _sizes(self) -> dict[str, int]:
        if not len(self.columns_):
            raise ValueError("columns_ is empty")
        return {"features": self.n_features_in_, "selected": len(self.columns_)}

    def fit(self, X: Any, feature_names: Any = None) -> Kernel:
        """Resolve the columns and bandwidth on training data X (n, D), whose columns ``feature_names`` may name."""
        return self._fit(TrainingSet(X, feature_names))

    def _fit(self, training: TrainingSet) -> Kernel:
        with self._named_in_errors():
            self._fit_columns(training)
            self._fit_parameters(training)
        return self

    @contextlib.contextmanager
    def _named_in_errors(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError, IndexError) as error:
            raise type(error)(f"kernel {self.label!r}: {error}") from None

    def _fit_columns(self, training: TrainingSet) -> None:
        if len(training.X.shape) != 2:
            raise ValueError(
                f"it needs features of shape (n, d), but X has shape {training.X.shape}. For matrices of distances "
                'use FromDistance, for kernel matrices "precomputed".'
            )
        self._set_columns(resolve_columns(self.columns, training.X, training.feature_names), training)

    def _set_columns(self, columns: np.ndarray, training: TrainingSet) -> None:
        names = training.feature_names
        self.columns_ = columns
        self.column_names_ = None if names is None else [names[k] for k in columns]
        self.n_features_in_ = int(training.X.shape[1])

    def _check_features(self, X: Any) -> None:
        """An error unless X has the columns that the kernel was fitted on."""
        if not self.__sklearn_is_fitted__():
            raise ValueError(f"kernel {self.label!r} is not fitted; use KernelFamily.fit or kernel.fit(X).")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but kernel {self.label!r} was fitted on {self.n_features_in_}."
            )
        names = names_of(X)
        if names is None or self.column_names_ is None:
            return
        for position, name in zip(self.columns_, self.column_names_):
            if names[position] != name:
                raise ValueError(
                    f"kernel {self.label!r} was fitted with column {name!r} at position {position}, where X now has "
                    f"{names[position]!r}. Put the columns in the order of the training data."
                )

    def _fit_parameters(self, training: TrainingSet) -> None:
        """Learn what depends on the data beyond the columns."""

    def _quantity(self) -> Quantity:
        raise NotImplementedError

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the kernel of a window into ``out``, given its quantity (which others share: read only)."""
        out[...] = values

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    def __call__(self, X: Any, Z: Any = None) -> np.ndarray:
        """The kernel matrix of X and Z, shape (n, m); of X with itself without Z.

        A kernel that has not been fitted is fitted on X for this call (a copy is; the kernel stays as it was).
        """
        return self._family(X).evaluate(X, Z)[0]

    def diagonal(self, X: Any) -> np.ndarray:
        """k(x, x) for each row of X, shape (n,), without the matrix."""
        return self._family(X).diagonal(X)[0]

    def _family(self, X: Any) -> Any:
        from multikernel.kernels.family import KernelFamily

        return KernelFamily([self]) if self.__sklearn_is_fitted__() else KernelFamily.fit([self], X)

    def _fitted_on(self, X: Any) -> Kernel:
        return self if self.__sklearn_is_fitted__() else clone(self).fit(X)

    @property
    def label(self) -> str:
        """The name, or a readable description such as ``rbf(0.25*mean) on petals``."""
        if self.name is not None:
            return self.name
        return self._description() + ("" if self.columns is None else f" on {describe(self.columns)}")

    def _description(self) -> str:
        return self._short

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return bool(_frozen(self) == _frozen(other))

    def __hash__(self) -> int:
        return hash(_frozen(self))


def _frozen(value: Any) -> Any:
    """A hashable stand-in for a parameter, equal for parameters that mean the same."""
    if isinstance(value, np.ndarray):
        return _frozen(value.tolist())
    if isinstance(value, list | tuple):
        return tuple(_frozen(entry) for entry in value)
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _frozen(entry)) for key, entry in value.items()))
    if hasattr(value, "get_params") and not isinstance(value, type):
        return (type(value), _frozen(value.get_params(deep=False)))
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


class DistanceKernel(Kernel):
    """exp(−d(x, z) / bandwidth) for a distance d; the quantity itself where there is no bandwidth."""

    bandwidth: Any
    _state = attributes(bandwidth_=Maybe(POSITIVE))

    def _has_bandwidth(self) -> bool:
        return True

    def _check_loaded(self) -> None:
        if self._has_bandwidth() and not hasattr(self, "bandwidth_"):
            raise ValueError("bandwidth_ is missing")

    def _fit_parameters(self, training: TrainingSet) -> None:
        if self._has_bandwidth():
            self.bandwidth_ = fitted_bandwidth(self.bandwidth, training, self._quantity())

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        if self._has_bandwidth():
            exponential(values, self.bandwidth_, out)
        else:
            super()._apply(values, out)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return np.ones(len(X))

    def _description(self) -> str:
        return f"{self._short}({shown(self.bandwidth)})"


def shown(width: Any) -> str:
    """A bandwidth or gamma in a label: a number in short, a rule or a mistake as it was given."""
    return f"{width:g}" if isinstance(width, numbers.Real) else str(width)


def parse_bandwidth(bandwidth: Any) -> tuple[float, str | None]:
    """Split a bandwidth such as "0.25*mean" into (factor, rule); the rule of a plain number is None."""
    factor, rule = bandwidth, None
    if isinstance(bandwidth, str):
        match = _MULTIPLE.fullmatch(bandwidth)
        if match is None or match[2] not in RULES:
            raise ValueError(
                f"bandwidth={bandwidth!r} is not a rule. Give a positive number, one of {', '.join(RULES)}, "
                'or a multiple of a rule such as "0.25*mean".'
            )
        factor, rule = match[1] or 1.0, match[2]
    elif isinstance(bandwidth, bool) or not isinstance(bandwidth, numbers.Real):
        raise TypeError(f"bandwidth={bandwidth!r} must be a positive number or a string such as 'mean'.")
    try:
        factor = float(factor)
    except ValueError:
        raise ValueError(f"bandwidth={bandwidth!r}: {factor!r} is not a number.") from None
    if not (np.isfinite(factor) and factor > 0):
        raise ValueError(f"bandwidth={bandwidth!r} must be positive and finite.")
    return factor, rule


def fitted_bandwidth(bandwidth: Any, training: TrainingSet, quantity: Quantity) -> float:
    """The number a bandwidth stands for on the training data; 1.0 where distances are zero."""
    factor, rule = parse_bandwidth(bandwidth)
    if rule is None:
        return factor
    value = training.statistic(quantity, rule)
    if not np.isfinite(value):
        raise ValueError(
            f"The bandwidth rule {bandwidth!r} gives {value} on the training data: X has NaN, infinite or "
            "overflowing values. Impute or rescale them first."
        )
    # identical samples: every width gives the same constant kernel, so any positive number will do;
    # distances that are zero but for a few bits have no inverse
    return factor * value if factor * value >= np.finfo(float).tiny else 1.0


def exponential(distances: np.ndarray, bandwidth: float, out: np.ndarray) -> None:
    """out = exp(−distances / bandwidth), on all cores."""
    from multikernel.compiled import gram as compiled

    loop = compiled.exponential_float32 if out.dtype == np.float32 else compiled.exponential_float64
    factor = out.dtype.type(-1.0 / bandwidth)
    distances, n_columns = np.ascontiguousarray(distances), out.shape[1]
    n_rows = max(1, EXPONENTIALS // max(1, n_columns))
    direct = out.flags.c_contiguous and not np.may_share_memory(distances, out)

    def fill(start: int, stop: int) -> None:
        scratch = np.empty((n_rows, n_columns), out.dtype)  # the loop is quick on arrays that do not overlap
        for first in range(start, stop, n_rows):
            last = min(first + n_rows, stop)
            values = out[first:last] if direct else scratch[: last - first]
            loop(distances[first:last].reshape(-1), factor, values.reshape(-1))
            if not direct:
                out[first:last] = values

    over_rows(fill, len(out), work=2 * out.size)


def unique_names(names: Sequence[str]) -> list[str]:
    """Names with repeats told apart: a, a #2, a #3."""
    taken: dict[str, None] = {}
    for name in names:
        unique, count = name, 1
        while unique in taken:
            count += 1
            unique = f"{name} #{count}"
        taken[unique] = None
    return list(taken)


def resolve_columns(columns: Any, X: Any, feature_names: Sequence[str] | None = None) -> np.ndarray:
    """Positions of the selected columns, shape (d,).

    ``columns`` is as in scikit-learn's ``ColumnTransformer``: None (all), a name, a position, a slice (of names, with
    its end), a sequence of names or positions, a mask, or a callable that is called with X and returns any of these.
    """
    columns = columns(X) if callable(columns) else columns
    n_features = X.shape[1]
    names = list(feature_names) if feature_names is not None else names_of(X)
    if columns is None:
        return np.arange(n_features)
    select = _from_slice if isinstance(columns, slice) else _from_sequence
    selected = select(columns, n_features, names)
    if selected.size == 0:
        raise ValueError(f"columns={columns!r} selects none of the {n_features} columns; a kernel needs one.")
    return selected


def _from_slice(columns: slice, n_features: int, names: list[str] | None) -> np.ndarray:
    ends: list[Any] = [columns.start, columns.stop]
    for k, end in enumerate(ends):
        if isinstance(end, str):
            ends[k] = int(_positions_of([end], names)[0]) + k  # the end of a slice of names belongs to it
    return np.arange(n_features)[slice(ends[0], ends[1], columns.step)]


def _from_sequence(columns: Any, n_features: int, names: list[str] | None) -> np.ndarray:
    columns = np.atleast_1d(np.asarray(columns))
    if columns.size == 0:
        return np.empty(0, np.intp)
    if columns.ndim != 1:
        raise TypeError(f"columns has shape {columns.shape}; give a flat list of names or positions.")
    if columns.dtype == bool:
        if len(columns) != n_features:
            raise ValueError(f"columns is a mask of {len(columns)} entries, but X has {n_features} columns.")
        return np.flatnonzero(columns)
    if all(isinstance(c, str) for c in columns.tolist()):
        return _positions_of(columns.tolist(), names)
    if not np.issubdtype(columns.dtype, np.integer):
        raise TypeError(f"columns has entries of type {columns.dtype}; give names, integer positions or a mask.")
    outside = columns[(columns < -n_features) | (columns >= n_features)]
    if outside.size:
        raise IndexError(f"columns asks for position {outside[0]}, but X has {n_features} columns.")
    return (columns % n_features).astype(np.intp)


def _positions_of(wanted: list[str], names: list[str] | None) -> np.ndarray:
    if names is None:
        raise ValueError(
            f"columns are chosen by name ({describe(wanted)}), but X has no column names: pass a data frame, or "
            "choose them by position."
        )
    position = {name: k for k, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        others = f" nor {len(missing) - 1} more of the {len(wanted)} that were chosen" if len(missing) > 1 else ""
        raise ValueError(f"X has no column named {missing[0]!r}{others}; {near_matches(missing[0], names)}")
    return np.array([position[name] for name in wanted], np.intp)


class InnerProductKernel(Kernel):
    """A function of inner products, which are taken about the training mean ``center_`` (None: sparse data)."""

    needs_scaling = True
    center_: np.ndarray | None
    gamma_: float
    _state = attributes(center_=optional(reals("selected")))

    def _fit_columns(self, training: TrainingSet) -> None:
        super()._fit_columns(training)
        data = take_columns(training.X, self.columns_)
        self.center_ = None if sparse.issparse(data) else data.mean(axis=0, dtype=np.float64)

    def _inner(self) -> InnerProducts:
        return InnerProducts(self.columns_, self.center_)

    def _quantity(self) -> Quantity:
        return RawProducts(self._inner())

    def _squared_norms(self, X: PreparedRows) -> np.ndarray:
        return X.rows(self._inner()).stats["norm"] ** 2

    def _fitted_gamma(self, gamma: Any, training: TrainingSet) -> float:
        """A number, 1/d for None, or 1 / (d var(X)) for "scale"."""
        if gamma is None:
            return 1.0 / len(self.columns_)
        if isinstance(gamma, str) and gamma == "scale":
            variance = column_variance(self._inner(), training.prepared)
            return 1.0 / (len(self.columns_) * variance) if variance > 0 else 1.0
        if isinstance(gamma, bool) or not isinstance(gamma, numbers.Real) or not 0 < float(gamma) < np.inf:
            raise ValueError(f"gamma={gamma!r} must be a positive number, None or 'scale'.")
        return float(gamma)

    def _check_coef0(self, coef0: Any, least: float) -> None:
        if isinstance(coef0, bool) or not isinstance(coef0, numbers.Real) or not np.isfinite(float(coef0)):
            raise ValueError(f"coef0={coef0!r} must be a finite number.")
        if float(coef0) < least:
            raise ValueError(
                f"coef0={coef0!r} must be 0 or more: with a negative one the kernel is not positive semi-definite."
            )


class ExplicitKernel(InnerProductKernel):
    """An inner product of the columns themselves: dense data are its features.

    Fitted on sparse data it offers none: as arrays they would be larger than anything the kernel needs.
    """

    @property
    def has_features(self) -> bool:  # type: ignore[override]
        return getattr(self, "center_", True) is not None

    def _dense_columns(self, X: Any) -> np.ndarray:
        data = take_columns(as_data(X), self._fitted_on(X).columns_)
        return data.toarray() if sparse.issparse(data) else data


class Linear(ExplicitKernel):
    """k(x, z) = x·z.

    Parameters
    ----------
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> Linear(columns=[0])(np.array([[1.0, 9.0], [2.0, 9.0]]))
    array([[1., 2.],
           [2., 4.]])
    """

    _short = "linear"

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return self._squared_norms(X)

    def features(self, X: Any) -> np.ndarray:
        """The selected columns, shape (n, d)."""
        return self._dense_columns(X)


@parameters
class Polynomial(InnerProductKernel):
    """k(x, z) = (gamma x·z + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
    gamma : float, "scale" or None, default="scale"
        "scale" is 1 / (d var(X)) on the training data, None is 1 / d, d the number of selected columns.
    coef0 : float, default=1
        At least 0: the kernel is not positive semi-definite otherwise.
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> Polynomial(degree=2, gamma=1)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    degree: int = 3
    gamma: float | str | None = "scale"
    coef0: float = 1.0

    _short = "poly"
    _state = attributes(gamma_=POSITIVE, coef0=REAL, degree=COUNT)

    def _fit_parameters(self, training: TrainingSet) -> None:
        if not isinstance(self.degree, numbers.Integral) or self.degree < 1:
            raise ValueError(f"degree={self.degree!r} must be a positive integer.")
        self._check_coef0(self.coef0, least=0.0)
        self.gamma_ = self._fitted_gamma(self.gamma, training)

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        dtype = values.dtype.type
        gamma, coef0, degree = dtype(self.gamma_), dtype(self.coef0), int(self.degree)

        def fill(values: np.ndarray, out: np.ndarray) -> None:
            base = values * gamma
            base += coef0
            out[...] = base
            with np.errstate(over="ignore"):  # the family names the kernel that overflows
                for _ in range(degree - 1):  # a few products cost far less than a general power
                    out *= base

        in_chunks(fill, values, out)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return (self.gamma_ * self._squared_norms(X) + self.coef0) ** self.degree

    def _description(self) -> str:
        return f"poly({self.degree})"


@parameters
class Sigmoid(InnerProductKernel):
    """k(x, z) = tanh(gamma x·z + coef0); not positive semi-definite in general, and flagged so.

    Parameters
    ----------
    gamma : float, "scale" or None, default="scale"
        As in :class:`Polynomial`.
    coef0 : float, default=0
    columns, name
        See :class:`Kernel`.

    Examples
    --------
    >>> import numpy as np
    >>> Sigmoid(gamma=1)(np.array([[0.0], [1.0]])).round(2)
    array([[0.  , 0.  ],
           [0.  , 0.76]])
    >>> Sigmoid.psd
    False
    """

    gamma: float | str | None = "scale"
    coef0: float = 0.0

    psd = False
    _short = "sigmoid"
    _state = attributes(gamma_=POSITIVE, coef0=REAL)

    def _fit_parameters(self, training: TrainingSet) -> None:
        self._check_coef0(self.coef0, least=-np.inf)
        self.gamma_ = self._fitted_gamma(self.gamma, training)

    def _apply(self, values: np.ndarray, out: np.ndarray) -> None:
        gamma, coef0 = values.dtype.type(self.gamma_), values.dtype.type(self.coef0)
        in_chunks(lambda v, o: np.tanh(v * gamma + coef0, out=o), values, out)

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return np.tanh(self.gamma_ * self._squared_norms(X) + self.coef0)


class Cosine(ExplicitKernel):
    """k(x, z) = x·z / (‖x‖‖z‖), 0 where x or z is zero.

    Examples
    --------
    >>> import numpy as np
    >>> Cosine()(np.array([[2.0, 0.0], [3.0, 3.0], [0.0, 0.0]])).round(3)
    array([[1.   , 0.707, 0.   ],
           [0.707, 1.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """

    _short = "cosine"

    def _quantity(self) -> Quantity:
        return Cosines(RawProducts(self._inner()))

    def _diagonal(self, X: PreparedRows) -> np.ndarray:
        return (self._squared_norms(X) > 0).astype(np.float64)

    def features(self, X: Any) -> np.ndarray:
        """The selected columns divided by their norms (zero rows stay zero), shape (n, d)."""
        data = self._dense_columns(X)
        norms = np.sqrt(np.einsum("ij,ij->i", data, data, dtype=np.float64))
        return data / np.where(norms > 0, norms, 1.0)[:, None].astype(data.dtype)


@parameters
class RBF(DistanceKernel, InnerProductKernel):
    """k(x, z) = exp(−‖x − z‖² / bandwidth).

    Parameters
    ----------
    bandwidth : float or str, default="mean"
        A positive number, a rule, or a multiple of a rule such as "0.25*mean". Rules are fitted on training data:

        - "mean": the mean distance over all n² pairs of samples, the n zeros of a sample with itself included,
          exactly up to 5,000 samples and on a fixed subsample of 5,000 beyond;
        - "median": the median distance over pairs i < j of at most 2,000 samples;
        - "scale": the width that the spread of the columns suggests, d·var(X) for squared Euclidean distances
          (the inverse of scikit-learn's ``gamma="scale"``) and d·std(X) for L1 distances.
    gamma : float or "scale", optional
        1 / bandwidth, as in scikit-learn; instead of ``bandwidth``. "scale" is 1 / (d var(X)) on the training
        data, d the number of selected columns.
    columns, name
        See :class:`Kernel`.

    Attributes
    ----------
    bandwidth_ : float

    Examples
    --------
    >>> import numpy as np
    >>> kernel = RBF(bandwidth="2*mean").fit(np.array([[0.0], [2.0]]))
    >>> kernel.bandwidth_
    4.0
    >>> kernel(np.array([[1.0]]), np.array([[1.0], [3.0]])).round(3)
    array([[1.   , 0.368]])
    """

    bandwidth: float | str = "mean"
    gamma: float | str | None = None

    _short = "rbf"

    def _fit_parameters(self, training: TrainingSet) -> None:
        if self.gamma is None:
            super()._fit_parameters(training)
            return
        if self.bandwidth != "mean":
            raise ValueError(
                f"give bandwidth={self.bandwidth!r} or gamma={self.gamma!r}, not both; gamma is 1 / bandwidth."
            )
        self.bandwidth_ = 1.0 / self._fitted_gamma(self.gamma, training)

    def _quantity(self) -> Quantity:
        return SquaredDistances(self._inner())

    def _description(self) -> str:
        return super()._description() if self.gamma is None else f"rbf(gamma={shown(self.gamma)})"
