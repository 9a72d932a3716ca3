"""Normalisation of kernels: fitted on training kernels, applied to test kernels with training statistics.

Where there is no room for normalised kernels, they are scaled and centred while they are read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.gram.base import GramStack, compose, same_indices
from multikernel.io.state import Maybe, attributes, each, either, flags, only, reals, record

logger = logging.getLogger(__name__)

STEPS = ("center", "cosine", "trace", "variance")

# Where entries are computed when they are read, the variance of so many samples or more is that of pairs within
# groups of some size, drawn several times, if its relative standard error is small.
MANY, GROUP, DRAWS, ERROR = 5000, 64, 5, 0.005

_EACH = attributes(chosen=flags("kernels"), columns=reals("kernels", "columns"))
_FACTOR = attributes(from_rows=only(False), factor=reals("kernels"), error=Maybe(reals("kernels", least=0.0)))
_MEANS = attributes(grand=reals("kernels"), alive=reals("kernels"))
_SHARES = Maybe(either(reals("columns"), reals("kernels", "columns")))
_STATISTICS = either(
    record(**_EACH, **_MEANS, step=only("center"), shares=_SHARES),
    record(**_EACH, step=only("mask")),
    record(**_EACH, step=only("cosine"), from_rows=only(True)),
    record(**_EACH, **_FACTOR, step=only("trace", "variance")),
)

Statistics = dict[str, NDArray]
Steps = str | Sequence[str] | Mapping[str, str | Sequence[str]] | None


@dataclass
class Normalization:
    """A chain of steps, fitted on a training stack and applied to any stack against the same training samples.

    Steps, in the order given:

    - ``"center"``: centre in feature space, so that the training samples' images have mean zero [SSM98]:
      ``K_il - mean_l K_il - mean_i K_il + mean K``.
    - ``"cosine"``: unit self-similarity, ``K_il / sqrt(K_ii K_ll)``. Needs ``k(x, x)`` of new samples, so a
      precomputed rectangular kernel must bring it (``DenseStack(..., self_similarity=...)``).
    - ``"trace"``: unit trace, ``K / Σ_i K_ii``.
    - ``"variance"``: unit variance in feature space, ``K / (mean_i K_ii - mean_il K_il)`` [KBSZ11, sect. 3.3]. Of
      5,000 samples or more, if kernels are computed when they are read, the second mean is over a sample of pairs;
      ``"error"`` in ``statistics_`` is the relative standard error of the variance, at most 0.005.

    A kernel that is zero, or becomes zero when centred because it is constant, stays zero. With weights of samples,
    means and sums count a sample as often as its weight says.

    Parameters
    ----------
    steps : str, list of str, dict, or None
        One step, a chain of them, or chains per kernel name; the key ``"*"`` stands for all names not listed.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.gram import gram_stack
    >>> from multikernel.gram.normalization import Normalization
    >>> stack = gram_stack([np.diag([1.0, 4.0]), 1e6 * np.eye(2)])
    >>> Normalization("cosine").fit_apply(stack).diagonal()
    array([[1., 1.],
           [1., 1.]])
    """

    steps: Steps = None
    statistics_: list[dict[str, NDArray]] = field(default_factory=list, repr=False)

    _state: ClassVar = attributes("steps", statistics_=each(_STATISTICS))

    def _sizes(self) -> dict[str, int]:
        return dict(zip(("kernels", "columns"), self.statistics_[0]["columns"].shape)) if self.statistics_ else {}

    def fit_apply(
        self, stack: GramStack, sample_weight: NDArray | None = None, missing: NDArray[np.bool_] | None = None
    ) -> GramStack:
        """Learn the statistics of each step on a square training stack, and normalise it.

        Samples that are ``missing`` (F, n) do not count in the statistics of a kernel, and become zero in it; see
        :func:`mask_factors`.
        """
        self.statistics_, weight = [], sample_weight
        if missing is not None:
            weight = ~missing * (np.ones(len(stack)) if sample_weight is None else sample_weight)
        for name, chosen in self.plan(stack.names):
            statistics = {"step": np.array(name), "chosen": chosen, **_FIT[name](stack, chosen, weight)}
            self.statistics_.append(statistics)
            stack = _applied(stack, statistics)
        if missing is not None:
            self.statistics_.append(_mask(missing))
        return self._masked(stack, missing)

    def apply(self, stack: GramStack, missing: NDArray[np.bool_] | None = None) -> GramStack:
        """Normalise a stack whose columns are the training samples, with the training statistics.

        ``missing`` (F, rows) says which of its samples lack which kernel.
        """
        for statistics in self.statistics_:
            if str(statistics["step"]) != "mask":
                stack = _applied(stack, statistics)
        return self._masked(stack, missing)

    @property
    def missing(self) -> NDArray[np.bool_] | None:
        """Which training samples lack which kernel, shape (F, columns); None if all have all."""
        masked = bool(self.statistics_) and str(self.statistics_[-1]["step"]) == "mask"
        return self.statistics_[-1]["columns"] == 0.0 if masked else None

    def _masked(self, stack: GramStack, missing: NDArray[np.bool_] | None) -> GramStack:
        if self.missing is None and missing is None:
            return stack
        n_rows, n_columns, n_kernels = stack.shape
        rows = np.ones((n_kernels, n_rows)) if missing is None else mask_factors(missing)
        columns = np.ones((n_kernels, n_columns)) if self.missing is None else self.statistics_[-1]["columns"]
        return stack.scaled(rows, columns)

    def on_samples(
        self, stack: GramStack, missing: NDArray[np.bool_] | None = None
    ) -> tuple[GramStack, Normalization]:
        """Square kernels of other samples, normalised as the training samples were; not for "center".

        Also the normalisation of new samples against these.
        """
        none = np.zeros(0, dtype=np.intp)
        normalization = self.take_columns(none).extended(stack.take(columns=none), missing)
        return normalization.apply(stack, missing), normalization

    def extended(self, stack: GramStack, missing: NDArray[np.bool_] | None = None) -> Normalization:
        """The normalisation of stacks whose columns are the training samples and, after them, other samples.

        ``stack`` has kernels of these other samples (rows) with the training samples, ``missing`` (F, rows) says
        which of them lack which kernel.
        """
        n_rows, n_columns, n_kernels = stack.shape
        fitted = []
        for step in self.statistics_:
            if str(step["step"]) == "mask":
                continue
            change: Statistics = {}
            if str(step["step"]) == "center":
                shares = step.get("shares", np.full(n_columns, 1.0 / max(n_columns, 1)))
                own = _means(stack, shares)
                change["shares"] = np.concatenate([shares, np.zeros((*shares.shape[:-1], n_rows))], axis=-1)
            elif step["from_rows"]:
                own = np.where(step["chosen"][:, None], inverse_root(stack.diagonal()), 1.0)
            else:
                own = np.repeat(step["factor"][:, None], n_rows, axis=1)
            fitted.append({**step, **change, "columns": np.hstack([step["columns"], own])})
            stack = _applied(stack, step)
        if missing is not None or self.missing is not None:
            old = np.zeros((n_kernels, n_columns), dtype=bool) if self.missing is None else self.missing
            new = np.zeros((n_kernels, n_rows), dtype=bool) if missing is None else missing
            fitted.append(_mask(np.hstack([old, new])))
        return Normalization(self.steps, fitted)

    @property
    def needs_all_columns(self) -> bool:
        """Whether new samples must be compared with all training samples: centring averages over them."""
        return any(str(s["step"]) == "center" for s in self.statistics_)

    def take_columns(self, columns: NDArray) -> Normalization:
        """The fitted chain for stacks on some training columns only; not for chains that centre."""
        if self.needs_all_columns:
            raise ValueError("a centred kernel needs all training columns; take them after normalising.")
        cut = [{key: v[:, columns] if key == "columns" else v for key, v in s.items()} for s in self.statistics_]
        return Normalization(self.steps, cut)

    def plan(self, names: Sequence[str]) -> list[tuple[str, NDArray[np.bool_]]]:
        """Pairs of a step and a mask of the kernels it is for, in the order of application."""
        if not isinstance(self.steps, Mapping):
            return [(step, np.ones(len(names), dtype=bool)) for step in _chain(self.steps)]
        unknown = [name for name in self.steps if name != "*" and name not in names]
        if unknown:
            raise ValueError(f"normalize names unknown kernels: {unknown}; the kernels are {list(names)}.")
        chains = [_chain(self.steps.get(name, self.steps.get("*"))) for name in names]
        plan = []
        for position in range(max(map(len, chains), default=0)):
            for step in STEPS:
                chosen = np.array([len(c) > position and c[position] == step for c in chains])
                if chosen.any():
                    plan.append((step, chosen))
        return plan


def _chain(steps: Any) -> list[str]:
    if not (steps is None or np.iterable(steps)):
        raise ValueError(f"normalize={steps!r} is not a step, a list of steps, a dict by kernel name, or None.")
    chain = [] if steps is None else [steps] if isinstance(steps, str) else list(steps)
    for step in chain:
        if step not in STEPS:
            raise ValueError(f"normalize={step!r} is not a step: use one of {', '.join(STEPS)}, or a list of them.")
    return chain


def mask_factors(missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Factors (F, n) of features: zero for a kernel that a sample lacks, ``sqrt(F / kernels present)`` for others."""
    present = ~missing
    return present * np.sqrt(len(missing) / np.maximum(present.sum(axis=0), 1))


def _mask(missing: NDArray[np.bool_]) -> Statistics:
    every = np.ones(len(missing), dtype=bool)
    return {"step": np.array("mask"), "chosen": every, "columns": mask_factors(missing)}


def _shares(stack: GramStack, weight: NDArray | None) -> NDArray[np.float64]:
    """Weights of samples in a mean, shape (n,), or (F, n) where they differ from kernel to kernel."""
    return np.full(len(stack), 1.0 / len(stack)) if weight is None else weight / weight.sum(axis=-1, keepdims=True)


def _means(stack: GramStack, shares: NDArray) -> NDArray[np.float64]:
    """``K_j shares``, shape (F, n), for shares (n,) or (F, n)."""
    if shares.ndim == 1:
        return stack.apply(shares)
    return np.concatenate([stack.take(kernels=[k]).apply(own) for k, own in enumerate(shares)])


def _mean(values: NDArray, shares: NDArray) -> NDArray[np.float64]:
    """Means of values (F, n) over samples, shape (F,)."""
    return values @ shares if shares.ndim == 1 else (values * shares).sum(axis=1)


def _fit_center(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Statistics:
    before, shares = stack.diagonal(), _shares(stack, weight)
    means = _means(stack, shares)
    grand = _mean(means, shares)
    # what rounding leaves of a constant kernel must not be blown up by a later step
    after = np.where(shares > 0.0, before - 2.0 * means + grand[:, None], 0.0)
    rounding = 100.0 * np.finfo(stack.dtype).eps * np.abs(before).max(axis=1, initial=0.0)
    dead = chosen & (np.abs(after).max(axis=1, initial=0.0) <= rounding)
    statistics = {"columns": means, "grand": grand, "alive": np.where(dead, 0.0, 1.0)}
    return statistics if weight is None else {**statistics, "shares": shares}


def _fit_cosine(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Statistics:
    columns = np.where(chosen[:, None], inverse_root(stack.diagonal()), 1.0)
    return {"columns": columns, "from_rows": np.array(True)}


def _fit_trace(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Statistics:
    # with samples missing: as if they were like those that are there
    total = len(stack) if weight is None else np.max(weight, axis=0).sum() if weight.ndim == 2 else weight.sum()
    return _factors(stack, chosen, total * _mean(stack.diagonal(), _shares(stack, weight)))


def _fit_variance(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Statistics:
    shares = _shares(stack, weight)
    diagonal = _mean(stack.diagonal(), shares)
    rounding = 100.0 * np.finfo(stack.dtype).eps * np.abs(diagonal)
    sampled = stack.by_entry and len(stack) >= MANY and shares.ndim == 1
    if sampled:
        mean, error = _sampled_mean(stack, shares)
        error /= np.maximum(np.maximum(diagonal - mean, rounding), np.finfo(float).tiny)
        sampled = bool((error <= ERROR).all())
    if not sampled:
        mean = stack.quadratic_forms(shares) if shares.ndim == 1 else _mean(_means(stack, shares), shares)
    variance = diagonal - mean
    statistics = _factors(stack, chosen, np.where(variance <= rounding, 0.0, variance))
    if sampled:
        logger.info("variance of kernels from a sample of pairs: relative standard error %.2g", error.max())
        statistics["error"] = error
    return statistics


def _sampled_mean(stack: GramStack, shares: NDArray) -> tuple[NDArray, NDArray]:
    """The mean of all entries of each kernel from a sample of pairs, and its standard error.

    All pairs within random groups are read, so that every sample is in as many pairs as any other, and outliers add
    nothing to the error.
    """
    random, diagonal, means = np.random.default_rng(0), stack.diagonal(), []
    for _ in range(DRAWS):
        total, weight = np.zeros(stack.n_kernels), 0.0
        for group in np.array_split(random.permutation(len(stack)), max(len(stack) // GROUP, 1)):
            p = shares[group]
            total += stack.take(group, group).quadratic_forms(p) - diagonal[:, group] @ p**2
            weight += p.sum() ** 2 - p @ p
        means.append(total / max(weight, np.finfo(float).tiny))
    between, same = 1.0 - shares @ shares, diagonal @ shares**2
    return between * np.mean(means, axis=0) + same, between * np.std(means, axis=0, ddof=1) / np.sqrt(DRAWS)


def _factors(stack: GramStack, chosen: NDArray[np.bool_], size: NDArray) -> Statistics:
    """Divide each kernel by its ``size``; the factor is split evenly between rows and columns."""
    factor = np.where(chosen, inverse_root(size), 1.0)
    columns = np.repeat(factor[:, None], len(stack), axis=1)
    return {"columns": columns, "from_rows": np.array(False), "factor": factor}


def _applied(stack: GramStack, statistics: Mapping[str, NDArray]) -> GramStack:
    """The stack after one step, given its statistics."""
    n_rows, n_columns, _ = stack.shape
    chosen, columns = statistics["chosen"], statistics["columns"]
    if str(statistics["step"]) == "center":
        stack = stack.centered(columns, statistics["grand"], chosen, statistics.get("shares"))
        alive = statistics["alive"][:, None]
        if alive.all():
            return stack
        rows, columns = np.repeat(alive, n_rows, axis=1), np.repeat(alive, n_columns, axis=1)  # exact zeros
    elif not statistics["from_rows"]:
        rows = np.repeat(statistics["factor"][:, None], n_rows, axis=1)
    elif stack.knows_diagonal():
        rows = np.where(chosen[:, None], inverse_root(stack.diagonal()), 1.0)
    else:
        raise ValueError(
            'normalize="cosine" needs k(x, x) of new samples, which a precomputed test kernel does not hold. '
            "For cross-validation pass gram_stack(K), whose slices know it; for new samples pass "
            "DenseStack(K, symmetric=False, self_similarity=...), or normalise both kernels before fitting."
        )
    return stack.scaled(rows, columns)


def inverse_root(values: NDArray) -> NDArray:
    """``1 / sqrt(values)``, and 1 where a value is not positive: a zero kernel stays zero."""
    positive = values > 0.0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, values, 1.0)), 1.0)


_FIT = {"center": _fit_center, "cosine": _fit_cosine, "trace": _fit_trace, "variance": _fit_variance}


class Step(Protocol):
    """A change of blocks of rows as they are read."""

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        """Change a block (F, b, columns) of the given rows, and the self-similarities of those rows, in place."""

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> Step:
        """The same on some rows and kernels, and columns if an entry does not depend on others."""


@dataclass(frozen=True)
class Scaling:
    """Row factors (F, rows) and column factors (F, columns)."""

    row_factors: NDArray
    column_factors: NDArray

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        for matrix, row_factors, column_factors in zip(block, self.row_factors[:, rows], self.column_factors):
            matrix *= row_factors[:, None].astype(block.dtype)
            matrix *= column_factors[None, :].astype(block.dtype)
        self.rescale(self_similarity, rows)

    def rescale(self, self_similarity: NDArray, rows: NDArray | slice) -> None:
        """Change the self-similarities of the given rows, in place."""
        self_similarity *= self.row_factors[:, rows] ** 2

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> Scaling:
        return Scaling(self.row_factors[kernels][:, rows], self.column_factors[kernels][:, columns])


@dataclass(frozen=True)
class Centring:
    """Column means (F, columns), grand means (F,), which kernels to centre (F,), and the columns' shares in means.

    All column samples must be there: the mean over a row is the product of its sample with their mean.
    """

    column_means: NDArray
    grand_means: NDArray
    chosen: NDArray
    shares: NDArray | None = None

    def apply(self, block: NDArray, self_similarity: NDArray, rows: NDArray | slice) -> None:
        for k in np.flatnonzero(self.chosen):
            shares = self.shares
            own = shares if shares is None or shares.ndim == 1 else shares[k]
            row_means = block[k].mean(axis=1, dtype=np.float64) if own is None else block[k] @ own
            block[k] -= row_means[:, None].astype(block.dtype)
            block[k] -= (self.column_means[k] - self.grand_means[k])[None, :].astype(block.dtype)
            self_similarity[k] += self.grand_means[k] - 2.0 * row_means

    def take(self, rows: NDArray | slice, kernels: NDArray | slice, columns: NDArray | slice) -> Centring:
        # row means are those of the block itself, with all its columns
        shares = self.shares if self.shares is None or self.shares.ndim == 1 else self.shares[kernels]
        return Centring(self.column_means[kernels], self.grand_means[kernels], self.chosen[kernels], shares)


class BlockwiseStack(GramStack):
    """A stack that is normalised while it is read: for kernels that are too large to be stored normalised.

    A centred row depends on all its columns, so columns are chosen after the steps, but before scalings.
    """

    def __init__(self, base: GramStack, steps: tuple[Step, ...] = ()):
        self._base = base
        self._steps = steps
        self.by_entry = base.by_entry and self._scalings() is not None
        self._columns: NDArray | None = None
        self._similarity: NDArray | None = None
        self.names, self.shape, self.dtype, self.symmetric = base.names, base.shape, base.dtype, base.symmetric

    def _normalised(self, indices: NDArray) -> tuple[NDArray, NDArray]:
        block = self._base.rows(indices)
        if self._similarity is None:  # once for all blocks: a lazy stack computes it from all samples
            unknown = np.full((self._base.n_kernels, len(self._base)), np.nan)
            self._similarity = self._base.diagonal() if self.knows_diagonal() else unknown
        similarity = self._similarity[:, indices]
        for step in self._steps:
            step.apply(block, similarity, indices)
        return block, similarity

    def _scalings(self) -> list[Scaling] | None:
        """The steps, if all of them change an entry without looking at others in its row."""
        scalings = [step for step in self._steps if isinstance(step, Scaling)]
        return scalings if len(scalings) == len(self._steps) else None

    def rows(self, indices: ArrayLike) -> NDArray:
        block, _ = self._normalised(np.asarray(indices))
        return block if self._columns is None else block[:, :, self._columns]

    def knows_diagonal(self) -> bool:
        return self._base.knows_diagonal()

    def diagonal(self) -> NDArray[np.float64]:
        similarity = self._base.diagonal().astype(np.float64)
        if (scalings := self._scalings()) is not None:  # no row need be read
            for step in scalings:
                step.rescale(similarity, slice(None))
            return similarity
        return np.concatenate([self._normalised(rows)[1] for rows in self._base.row_blocks()], axis=1)

    def take(self, rows=None, columns=None, kernels=None) -> BlockwiseStack:
        some_rows = slice(None) if rows is None else np.asarray(rows, dtype=np.intp)
        some_kernels = slice(None) if kernels is None else np.asarray(kernels, dtype=np.intp)
        if columns is not None and self._columns is None and self._scalings() is not None:
            some_columns = np.asarray(columns, dtype=np.intp)
            steps = tuple(step.take(some_rows, some_kernels, some_columns) for step in self._steps)
            return BlockwiseStack(self._base.take(rows=rows, columns=some_columns, kernels=kernels), steps)
        steps = tuple(step.take(some_rows, some_kernels, slice(None)) for step in self._steps)
        view = BlockwiseStack(self._base.take(rows=rows, kernels=kernels), steps)
        view._columns = compose(self._columns, columns, self.shape[1])
        n_columns = self.shape[1] if columns is None else len(np.asarray(columns))
        view.shape = (view.shape[0], n_columns, view.shape[2])
        view.symmetric = self.symmetric and same_indices(rows, columns)
        return view

    def changed(self, step: Step) -> BlockwiseStack:
        if self._columns is not None:
            return BlockwiseStack(self, (step,))
        return BlockwiseStack(self._base, (*self._steps, step))

    def _storage(self) -> str:
        return f"normalised on the fly from {self._base!r}"
