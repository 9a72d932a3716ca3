"""From a user's X to Gram stacks, at fit and at predict: features with kernels, or kernels as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack
from sklearn.utils.validation import validate_data

from multikernel.gram import DenseStack, GramStack, LazyStack, family_stack, parse_memory, precomputed_stack
from multikernel.gram.checks import (
    apply_clip,
    check_sampled,
    check_test_stack,
    check_training_stack,
    fit_clip,
    without_holes,
)
from multikernel.gram.features import FIT_ROWS, STEP, FeatureAxes, FeatureBlocks, FeatureMap
from multikernel.gram.lowrank import LowRankStack
from multikernel.gram.normalization import Normalization
from multikernel.gram.stacks import remark_on_cost
from multikernel.io import state
from multikernel.io.state import positions, reals
from multikernel.kernels import (
    FromDistance,
    FromFunction,
    Kernel,
    KernelFamily,
    Nystroem,
    as_kernels,
    default_kernels,
)
from multikernel.kernels.family import RANK
from multikernel.kernels.quantities import is_annotated, is_frame, take_rows
from multikernel.kernels.sources import ArraySource, Source, as_source
from multikernel.kernels.views import annotated_table
from multikernel.runtime.clock import OutOfTime
from multikernel.runtime.executors import executor_for
from multikernel.runtime.warnings import warn_user

# The largest entry of a kernel that sums of squares can take.
LARGEST = 1e100

NOTHING_TO_LEARN = (
    "X has shape {}: there is nothing to learn from. Pass kernels between at least 2 samples, shape (n, n, F)."
)


class KernelInput:
    """Mixin of all estimators: makes training stacks, and stacks of new samples against training samples.

    It relies on the parameters ``kernels``, ``normalize``, ``psd`` and ``memory``, and keeps what prediction needs:
    fitted kernels, statistics of the normalisation, and the training rows that carry a coefficient. Gram
    matrices are never kept.
    """

    kernels: Any
    normalize: Any
    psd: str
    missing: str
    memory: Any
    keep: str
    checkpoint: Any = None  # for estimators without the parameter
    executor: Any = None
    _feature_steps: list[dict]
    _feature_type: str
    _columns: NDArray[np.intp] | None
    _family: Any
    _X: Any
    _most_samples = 0  # in memory up to which a model is one of samples, even if it could be one of features
    _passes = 15  # how often entries are computed in a fit, if they cannot be kept; as counted at tol=1e-3
    _state = state.attributes(
        "n_missing_",
        n_features_in_=state.COUNT,
        feature_names_in_=state.Maybe(state.labels("features")),
        kernel_names_=state.labels("kernels"),
        _n_train=state.COUNT,
        _support=positions("support", below="samples"),
        _columns=state.optional(positions("support", below="samples")),
        _X=state.optional(state.samples("columns", "features")),
        _family=state.optional(state.part(KernelFamily, kernels="kernels", features="features")),
        _normalization=state.part(Normalization, kernels="kernels", columns="columns"),
        _clipped=state.keyed(positions(below="kernels"), reals("samples", "")),
        _largest=reals("kernels"),
        _unit=state.flags("kernels"),
        _feature_steps=state.Maybe(state.each(STEP)),
        _feature_type=state.Maybe(state.only("float32", "float64")),
    )

    def _sizes(self) -> dict[str, int]:
        n_train, n_support = self._n_train, len(self._support)
        return {
            "features": self.n_features_in_,
            "kernels": len(self.kernel_names_),
            "samples": n_train,
            "support": n_support,
            # of kernels before and while they are normalised
            "columns": n_train if self._columns is None else n_support,
            "axes": n_train,
        }

    def _check_loaded(self) -> None:
        if (self._X is None) != (self._family is None or self._family.pairwise or self._on_features):
            raise ValueError("_X or _family is missing")
        if self._columns is not None and (self._clipped or self._normalization.needs_all_columns):
            raise ValueError("_columns are some of those that are needed")
        parse_memory(self.memory)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.pairwise = tags.input_tags.three_d_array = self._is_pairwise()
        tags.input_tags.sparse = not self._is_pairwise()
        tags.input_tags.allow_nan = self.missing == "mask"
        return tags

    def __getstate__(self) -> dict[str, Any]:
        # a connection to a cluster stays here
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {**state, "executor": None} if hasattr(state.get("executor"), "scheduler_info") else state

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def _is_pairwise(self) -> bool:
        """Whether X holds a column per training sample: kernels, or distances for ``FromDistance``."""
        if self._is_precomputed():
            return True
        kernels = self.kernels if isinstance(self.kernels, (list, tuple)) else [self.kernels]
        return any(getattr(kernel, "pairwise", False) for kernel in kernels)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the estimator; with ``deep`` those of its kernels too, as ``kernels__0__bandwidth``."""
        params = super().get_params(deep)  # type: ignore[misc]
        if deep and isinstance(self.kernels, (list, tuple)):
            for k, kernel in enumerate(self.kernels):
                if hasattr(kernel, "get_params"):
                    params |= {f"kernels__{k}__{name}": value for name, value in kernel.get_params().items()}
        return params

    def set_params(self, **params: Any):
        """Set parameters of the estimator, and of its kernels as ``kernels__0__bandwidth``."""
        inside = {name: params.pop(name) for name in list(params) if re.fullmatch(r"kernels__\d+__.+", name)}
        super().set_params(**params)  # type: ignore[misc]
        for name, value in inside.items():
            _, position, parameter = name.split("__", 2)
            if not isinstance(self.kernels, (list, tuple)) or int(position) >= len(self.kernels):
                raise ValueError(f"{name!r} names no kernel: kernels is {self.kernels!r}.")
            if not hasattr(kernel := self.kernels[int(position)], "set_params"):
                raise ValueError(f"{name!r}: kernels[{position}] is {kernel!r}, which has no parameters.")
            kernel.set_params(**{parameter: value})
        return self

    def _given_stack(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Validate X and y together; returns the square stack, and y."""
        refuse_masked(X, "X")
        refuse_masked(y, "y")
        self._missing: NDArray[np.bool_] | None = None
        self.__dict__.pop("_feature_steps", None)
        build: Any = self._stack_of_pairs if self._is_pairwise() else self._stack_of_features
        if not self._is_pairwise() and (found := self._as_source(X, y)) is not None:
            build, (X, y) = self._blocks_of_source, found
        stack, y = build(X, y)
        if self.checkpoint is not None:
            self._kernels_digest = self._digest_of(stack)
        self.kernel_names_ = np.array(stack.names, dtype=object)
        self._clipped: dict[int, NDArray] = {}
        if isinstance(stack, FeatureBlocks):
            return self._checked_blocks(stack), y
        self.n_missing_ = self._count_missing(stack.names, self._missing)
        if self.psd == "clip":
            self._clipped, stack = fit_clip(stack)
        diagonal = stack.diagonal()
        self._largest = diagonal.max(axis=1, initial=0.0)
        self._refuse_large()
        # a handful of samples may look alike by chance; and entries are bounded by the diagonal in PSD kernels only
        self._unit = (np.ptp(diagonal, axis=1) <= 1e-6 * self._largest) & (len(stack) >= 10) & (self.psd == "raise")
        return stack, y

    def _refuse_large(self) -> None:
        if (self._largest > LARGEST).any():
            k = int(self._largest.argmax())
            raise ValueError(
                f"kernel {self.kernel_names_[k]!r} has entries of {self._largest[k]:.3g}, too large to add up or "
                "square: scale it, or the data behind it."
            )

    @property
    def _on_features(self) -> bool:
        """Whether the model is one of features, with nothing that belongs to training samples."""
        return "_feature_steps" in self.__dict__

    def _takes_blocks(self) -> bool:
        """Whether problems can be solved in the space of explicit features, block by block."""
        return False

    def _as_source(self, X: Any, y: Any) -> tuple[Source, Any] | None:
        """What reads X in blocks, if it is not in memory; a memory map will do as an array as well."""
        if type(X) is np.ndarray:
            return None
        if isinstance(X, np.memmap):
            kernels = self.kernels if isinstance(self.kernels, (list, tuple)) else [self.kernels]
            if not (self._takes_blocks() and all(getattr(kernel, "has_features", False) for kernel in kernels)):
                return None
        return as_source(X, y)

    def _blocks_of_source(self, source: Source, y: Any) -> tuple[FeatureBlocks, Any]:
        """Blocks of a table that is not in memory; kernels are fitted on a sample of its rows."""
        if not self._takes_blocks():
            name, other = type(self).__name__, "use SVRGMKLClassifier"
            if "executor" in self.get_params(deep=False):
                other = 'leave solver="auto" and keep="support"'
            raise TypeError(f"{name} cannot read X in blocks of rows: pass an array, or {other}.")
        if not source.shape[0]:
            raise ValueError("X has no rows: there is nothing to learn from.")
        y = self._checked_targets(y, source.shape[0])
        self.n_features_in_ = source.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        if source.names is not None:
            self.feature_names_in_ = np.array(source.names, dtype=object)
        sample = source.take(_fit_rows(source.shape[0]))
        kernels = self._chosen_kernels(source.shape)
        if self.kernels is None:
            kernels = [k if k.has_features else Nystroem(kernel=k, rank=RANK) for k in kernels]
        self._fit_family(kernels, sample, sample)
        lacking = [k.label for k in self._family.kernels if not hasattr(k, "features")]
        if lacking:
            raise ValueError(
                f"kernels {lacking[:3]} have no explicit features, which X in blocks needs: wrap them in "
                "Nystroem(kernel=…, rank=…) or RandomFourier(kernel=…, rank=…)."
            )
        return self._blocks(source, sample.dtype, masked=self.missing == "mask"), y

    def _checked_targets(self, y: Any, n_samples: int) -> NDArray:
        """y of one dimension, for samples that scikit-learn cannot check together with it."""
        from sklearn.utils import column_or_1d

        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        y = column_or_1d(y, warn=True)
        if len(y) != n_samples:
            raise ValueError(f"X has {n_samples} rows, but y has {len(y)} entries: inconsistent numbers of samples.")
        if y.dtype == object and (gone := [i for i, label in enumerate(y) if label is None]):
            raise ValueError(f"y has no label for {len(gone)} samples, the first at row {gone[0]}: leave them out.")
        return y

    def _chosen_kernels(self, shape: tuple[int, int]) -> list[Kernel]:
        return self._default_kernels(*shape) if self.kernels is None else as_kernels(self.kernels)

    def _fit_family(self, kernels: list[Kernel], seen: Any, X: Any) -> None:
        """Fit the kernels on rows ``seen``, X as arrays, without views that are missing there."""
        names, whole = getattr(self, "feature_names_in_", None), filled(X)
        room = parse_memory(self.memory) // 4  # for distances that the stack will need
        self._family = KernelFamily.fit(kernels, whole if seen is X else seen, names, keep=room)
        if self.missing == "mask" and (missing := self._family.missing(X)) is not None:
            self._family.fit_present(whole, missing, names)

    def _blocks(self, source: Source, dtype: Any, *, masked: bool) -> FeatureBlocks:
        self._X, self._feature_steps = None, []
        features = FeatureMap(self._family, masked=masked, dtype=np.result_type(dtype, np.float32))
        return FeatureBlocks(source, features, executor_for(self.executor), parse_memory(self.memory))

    def _checked_blocks(self, blocks: FeatureBlocks) -> FeatureBlocks:
        present = blocks.statistics[2]
        self.n_missing_ = {name: len(blocks) - round(present[k[0]]) for name, k in self._family.views.items()}
        if not present.all():
            name = blocks.names[int(present.argmin())]
            raise ValueError(f"kernel {name!r} is missing for every sample: leave it out.")
        self._largest, self._unit = blocks.largest, np.zeros(len(blocks.names), dtype=bool)
        self._refuse_large()
        return blocks

    def _feature_map(self) -> FeatureMap:
        """What makes features of new samples."""
        return FeatureMap(self._family, self._feature_steps, masked=self.missing == "mask", dtype=self._feature_type)

    def _normalized(self, stack: Any, sample_weight: NDArray | None = None) -> Any:
        """The training stack with the normalisation fitted to it."""
        default = self.kernels is None and self.normalize is None
        steps = self._default_normalization() if default else self.normalize
        if isinstance(stack, FeatureBlocks):
            self._normalization = Normalization(None)
            self._feature_steps = stack.normalise(steps, sample_weight)
            return stack
        self._normalization = Normalization(steps)
        try:
            return self._normalization.fit_apply(stack, sample_weight, self._missing)
        except OutOfTime:
            if self._X is None:
                raise
            self._normalization = Normalization(None)
            return self._unread_stack()

    def _unread_stack(self) -> GramStack:
        """Kernels that cost nothing until they are read: for a fit that has no time to read them."""
        return LazyStack(self._family, self._X, memory=0, dtype=self._X.dtype)

    def _digest_of(self, stack: GramStack | FeatureBlocks) -> str:
        """Fingerprint of the training kernels: of the data and the kernels' parameters, or of all entries."""
        if isinstance(stack, FeatureBlocks):  # all rows by what was read of them, in whatever blocks
            X, known = stack.source.take(_fit_rows(len(stack))[:1000]), stack.statistics[1:]
            return digest([len(stack), X, *(np.array([f"{x:.6g}" for x in numbers]) for numbers in known)])
        if self._X is None:
            return digest([stack.names, *(digest(block) for _, block in stack.blocks())])
        X = self._X
        parts: list[Any] = [X.shape, X.data, X.indices, X.indptr] if issparse(X) else [np.ascontiguousarray(X)]
        for k, kernel in enumerate(self._family.kernels):
            params = kernel.get_params(deep=False)
            params["columns"] = kernel.columns_
            if params.pop("function", None) is not None:  # identified by some of its values
                params["values"] = stack.take(kernels=[k]).rows(np.arange(min(len(stack), 8)))
            parts.append([type(kernel).__name__, {name: digest(value) for name, value in params.items()}])
        return digest(parts)

    def _stack_of_features(self, X: Any, y: Any) -> tuple[GramStack | FeatureBlocks, Any]:
        _refuse_containers(X)
        table = X
        X, y = validate_data(self, X, y, **validation(X))
        kernels = self._chosen_kernels(X.shape)
        by_function = any(callable(kernel.columns) for kernel in kernels)  # these need the frame itself
        seen = table if by_function and is_frame(table) else X
        fit_on = X
        if len(rows := _fit_rows(X.shape[0])) < X.shape[0] and self._takes_blocks() and _explicit(kernels, X):
            fit_on = X[rows]
            seen = fit_on if seen is X else take_rows(seen, rows)
        self._fit_family(kernels, seen, fit_on)
        self._missing = self._find_missing(X)
        if remark := self._family.remark_on_scales(filled(X)):
            warn_user(remark, UserWarning)
        if self._takes_blocks() and X.shape[0] > self._most_samples and _explicit(self._family.kernels, X):
            return self._blocks(ArraySource(X), X.dtype, masked=self._missing is not None), y
        self._X = X = filled(X)
        try:
            if remark := remark_on_cost(self._family, X, self.memory, self._passes, type(self).__name__):
                warn_user(remark, UserWarning)
            stack = family_stack(self._family, X, memory=self.memory)
        except OutOfTime:
            stack = self._unread_stack()
        doubtful = [k for k, kernel in enumerate(self._family.kernels) if _is_doubtful(kernel)]
        if self.psd == "raise" and doubtful:
            check_sampled(stack, doubtful)
        return stack, y

    def _default_kernels(self, n_samples: int, n_features: int) -> list[Kernel]:
        """What ``kernels=None`` stands for."""
        return default_kernels(n_samples)

    def _default_normalization(self) -> str | None:
        """What ``normalize=None`` stands for with the default kernels."""
        return "variance"

    def _stack_of_pairs(self, X: Any, y: Any) -> tuple[GramStack, Any]:
        self._family = self._X = None
        stack: GramStack
        if self._is_precomputed():
            stack = X.take() if isinstance(X, GramStack) else precomputed_stack(X, memory=self.memory)
        else:
            pairs = _as_pairs(X)
            self._family = KernelFamily.fit(self.kernels, pairs)
            stack = DenseStack.owning(self._family.evaluate(pairs), self._family.names)
        if 0 in stack.shape:
            raise ValueError(NOTHING_TO_LEARN.format(stack.shape))
        if stack.stored and np.isnan(stack.diagonal()).any():
            stack, gone, _ = without_holes(stack)
            self._missing = self._allowed(gone, stack.names)
        # a stack of kernels that users pass remembers that it was checked
        untouched = self._is_precomputed() and isinstance(X, GramStack) and self._missing is None
        check_training_stack(X if untouched else stack, self.psd)
        self.n_features_in_ = stack.shape[1]
        return stack, self._checked_targets(y, len(stack))

    def _find_missing(self, X: Any) -> NDArray[np.bool_] | None:
        """Which samples lack which kernel, shape (F, n), where that is allowed; None if all have all."""
        gone = self._family.missing(X)
        if gone is not None and not gone.any() and self.missing == "raise":
            raise ValueError("X contains NaN in columns that no kernel looks at: leave them out.")
        return None if gone is None or not gone.any() else self._allowed(gone, self._family.names)

    def _allowed(self, gone: NDArray[np.bool_], names: Sequence[str]) -> NDArray[np.bool_]:
        """``gone`` (F, n), unless missing views are to be errors, or a sample has none of them."""
        if self.missing == "raise":
            counts = self._count_missing(names, gone)
            listed = ", ".join(f"{name!r} of {count}" for name, count in counts.items() if count)
            raise ValueError(
                f"X contains NaN: of {gone.shape[1]} samples some lack whole views: {listed}. With missing='mask' "
                "their other views speak for them; or impute, or leave these samples out."
            )
        refuse_lonely(gone)
        return gone

    def _count_missing(self, names: Sequence[str], gone: NDArray[np.bool_] | None) -> dict[str, int]:
        """Number of samples without it, by view."""
        views = {name: [k] for k, name in enumerate(names)} if self._family is None else self._family.views
        return {name: 0 if gone is None else int(gone[k[0]].sum()) for name, k in views.items()}

    def _keep_training_rows(self, support: NDArray[np.intp]) -> None:
        """Drop everything that prediction does not need, given the rows that carry a coefficient."""
        self.__dict__.pop("_missing", None)
        if self._on_features:
            self._columns = self._support = support
            return
        self._n_train = self.n_features_in_ if self._X is None else self._X.shape[0]
        whole = self._normalization.needs_all_columns or bool(self._clipped) or self.keep == "all"
        self._columns = None if whole else support
        if self._X is not None:
            # a copy in any case: what users do to their data later must not change the model
            self._X = self._X.copy() if whole else self._X[support]
        if self._columns is not None:
            self._normalization = self._normalization.take_columns(support)
        self._support = support

    def _test_stack(self, X: Any) -> GramStack:
        """Stack of new samples (rows) against the training rows that carry a coefficient (columns)."""
        stack = self._stack_of_kept(X)
        return stack if self._columns is not None else stack.take(columns=self._support)

    def _stack_of_kept(self, X: Any) -> GramStack:
        """Stack of new samples against the training rows that were kept."""
        if self._on_features:
            features = self._feature_map()
            axes = FeatureAxes(features(self._checked_table(X)), features.owner, features.family.names)
            return axes.take(columns=self._columns)
        if self._X is not None:
            X, missing = self._new_table(X)
            stack = family_stack(self._family, X, self._X, memory=self.memory)
        else:
            stack, missing = self._test_stack_of_pairs(X)
            if self._columns is not None:
                stack = stack.take(columns=self._columns)
        return self._normalization.apply(apply_clip(stack, self._clipped), missing)

    def _new_table(self, X: Any) -> tuple[Any, NDArray[np.bool_] | None]:
        """New samples, checked, without holes; and which of them lack which kernel."""
        X = self._checked_table(X)
        return filled(X, self._X), self._find_missing(X)

    def _checked_table(self, X: Any) -> Any:
        if is_annotated(X):
            X, _ = annotated_table(X)
        refuse_masked(X, "X")
        _refuse_containers(X)
        X = validate_data(self, X, reset=False, **validation(X))
        if self._on_features and self.missing == "raise":
            self._find_missing(X)
        return X

    def _stack_between(self, X: Any, Z: Any) -> GramStack:
        """Stack of new samples X against new samples Z, normalised as the training samples were."""
        if self._on_features:
            features = self._feature_map()
            rows, columns = (
                np.split(features(self._checked_table(T)), features.starts[1:-1], axis=1) for T in (X, Z)
            )
            return LowRankStack(rows, columns, features.family.names)
        (X, missing), (Z, gone) = self._new_table(X), self._new_table(Z)
        training, normalization = self._X, self._normalization
        if not normalization.needs_all_columns:  # no training sample is needed
            training, normalization = training[:0], normalization.take_columns(np.zeros(0, dtype=np.intp))
        normalization = normalization.extended(LazyStack(self._family, Z, training, memory=0, dtype=X.dtype), gone)
        stack = family_stack(self._family, X, stacked(training, Z), memory=self.memory)
        return normalization.apply(stack, missing).take(columns=np.arange(training.shape[0], stack.shape[1]))

    def _stack_of_all(self, X: Any) -> GramStack:
        """Stack of new samples against all training samples, of a model that is validated and not yet stored."""
        self._n_train = self.n_features_in_ if self._X is None else self._X.shape[0]
        self._support, self._columns = np.arange(self._n_train), None
        return self._test_stack(X)

    def _test_stack_of_pairs(self, X: Any) -> tuple[GramStack, NDArray[np.bool_] | None]:
        refuse_masked(X, "X")
        if self._family is not None:
            pairs = _as_pairs(X)
            if pairs.shape[1] != self._n_train:
                raise ValueError(
                    f"X has {pairs.shape[1]} columns, but the model was trained on {self._n_train} samples: pass "
                    "distances between new samples (rows) and all training samples (columns)."
                )
            needed = max(int(kernel.columns_[0]) for kernel in self._family.kernels) + 1
            if needed > (pairs.shape[2] if pairs.ndim == 3 else 1):
                raise ValueError(
                    f"X has shape {pairs.shape}, but the kernels read {needed} matrices of distances: pass the same "
                    "ones as in training, shape (m, n, F)."
                )
            similarity = np.ones((len(self._family), len(pairs)))  # exp(-0)
            array = self._family.evaluate(pairs)
            return DenseStack.owning(array, self._family.names, symmetric=False, self_similarity=similarity), None
        stack = X.take() if isinstance(X, GramStack) else precomputed_stack(X, memory=self.memory, symmetric=False)
        missing = None
        if self.missing == "mask" and stack.stored:
            stack, gone, _ = without_holes(stack)
            missing = self._allowed(gone, stack.names) if gone.any() else None
        return check_test_stack(stack, self._n_train, list(self.kernel_names_), self._largest, self._unit), missing


def _fit_rows(n_rows: int) -> NDArray[np.intp]:
    """Rows that kernels with explicit features are fitted on: the same ones every time."""
    if n_rows <= FIT_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, FIT_ROWS, replace=False))


def _explicit(kernels: Sequence[Kernel], X: Any) -> bool:
    """Whether all kernels have features, and these are fewer numbers than entries of the kernels."""
    if not all(getattr(kernel, "has_features", False) for kernel in kernels):
        return False
    ranks = [getattr(k, "rank_", len(k.columns_)) if hasattr(k, "columns_") else 0 for k in kernels]
    return sum(ranks) < len(kernels) * X.shape[0]


def stacked(above: Any, below: Any) -> Any:
    """Rows of two tables, sparse if either is."""
    if issparse(above) or issparse(below):
        return vstack([csr_array(above), csr_array(below)], format="csr")
    return np.vstack([above, below])


def validation(X: Any) -> dict[str, Any]:
    """How scikit-learn checks tables: NaN is looked at later, unless it hides in a sparse matrix."""
    finite = True if issparse(X) else "allow-nan"
    return {"ensure_all_finite": finite, "accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def filled(X: Any, like: Any = None) -> Any:
    """X with values of other samples in place of NaN, of the rows of ``like`` if given: they will not count."""
    if issparse(X) or not np.isnan(X).any():
        return X
    like = X if like is None else like[:1].toarray() if issparse(like) else like[:1]
    holes = np.isnan(like)
    first = np.where(holes.all(axis=0), 0.0, like[holes.argmin(axis=0), np.arange(X.shape[1])] if len(like) else 0.0)
    return np.where(np.isnan(X), first.astype(X.dtype), X)


def refuse_lonely(gone: NDArray[np.bool_]) -> None:
    """Raise an error for samples that lack all kernels, given ``gone`` (F, n)."""
    if (lonely := np.flatnonzero(gone.all(axis=0))).size:
        raise ValueError(f"{len(lonely)} samples have no view at all, the first at row {lonely[0]}: leave them out.")


def digest(value: Any) -> str:
    """Fingerprint of an array, a parameter or a list of them, the same in every process."""
    try:
        return joblib.hash(value, hash_name="sha1")
    except Exception:  # a function that cannot be pickled, or an object that holds one
        return getattr(value, "__qualname__", type(value).__qualname__)


def _refuse_containers(X: Any) -> None:
    """Raise an error, with advice, for containers of tables that are not tables."""
    kind = type(X).__name__
    if is_frame(X) and len(set(X.columns)) < len(X.columns):
        names = list(X.columns)
        first = next(name for name in names if names.count(name) > 1)
        raise ValueError(
            f"X has {names.count(first)} columns named {first!r}: rename them, or pass X.to_numpy() and choose "
            "columns by position."
        )
    if isinstance(X, Mapping) and not issparse(X):
        raise TypeError(
            f"X is a {kind} of {len(X)} tables: join them with X, columns = multikernel.kernels.join_views(X), "
            "then use kernel_grid(columns) for kernels on each."
        )
    if isinstance(X, (list, tuple)) and any(getattr(part, "ndim", 0) == 2 for part in X):
        raise ValueError(
            f'X is a {kind} of {len(X)} matrices. If they are kernels, use kernels="precomputed" and pass '
            "gram_stack(X), also to cross_val_score. If they are tables, use multikernel.kernels.join_views(X)."
        )


def refuse_masked(values: Any, name: str) -> None:
    """Raise an error for masked entries, which would be read as if they were not masked."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} has {np.ma.count_masked(values)} masked entries, which kernels would still read: leave "
            "those samples out, or impute with .filled(value)."
        )


def _as_pairs(X: Any) -> NDArray:
    """Distances as an array (n, m) or (n, m, F)."""
    if isinstance(X, GramStack):
        array = np.moveaxis(X.to_array(), 0, -1)
    else:
        array = X.toarray() if issparse(X) else np.asarray(X)
    if 0 in array.shape:
        raise ValueError(NOTHING_TO_LEARN.format(array.shape))
    if array.ndim not in (2, 3):
        raise ValueError(f"distances have shape {array.shape}: pass (n, n, F) or one matrix (n, n).")
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"distances contain NaN or infinity, the first at {place}: remove or impute those samples.")
    return array


def _is_doubtful(kernel: Any) -> bool:
    """Whether a kernel might not be positive semi-definite."""
    return not kernel.psd or type(kernel) in (FromFunction, FromDistance)
