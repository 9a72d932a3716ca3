"""Normalisation of kernels: fitted on training kernels, applied to test kernels with training statistics."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from multikernel.gram.base import GramStack
from multikernel.io.state import Each, Either, Only, Record, attributes, flags, reals

logger = logging.getLogger(__name__)

STEPS = ("center", "cosine", "trace", "variance")

# Where entries are computed when they are read, the variance of so many samples or more is that of pairs within
# groups of some size, drawn several times, if its relative standard error is small.
MANY, GROUP, DRAWS, ERROR = 5000, 64, 5, 0.005

_OF_KERNELS = attributes(chosen=flags("kernels"), columns=reals("kernels", "columns"))
_CENTER = attributes(**_OF_KERNELS, step=Only("center"), grand=reals("kernels"), alive=reals("kernels"))
_STATISTICS = Either(
    Record(**_CENTER),
    Record(**_CENTER, shares=reals("columns")),
    Record(**_OF_KERNELS, step=Only("cosine"), from_rows=Only(True)),
    Record(**_OF_KERNELS, step=Only("trace", "variance"), from_rows=Only(False), factor=reals("kernels")),
    Record(
        **_OF_KERNELS,
        step=Only("variance"),
        from_rows=Only(False),
        factor=reals("kernels"),
        error=reals("kernels", least=0.0),
    ),
)

Fitted = tuple[dict[str, NDArray], GramStack]
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

    _state: ClassVar = attributes("steps", statistics_=Each(_STATISTICS))

    def _sizes(self) -> dict[str, int]:
        return dict(zip(("kernels", "columns"), self.statistics_[0]["columns"].shape)) if self.statistics_ else {}

    def fit_apply(self, stack: GramStack, sample_weight: NDArray | None = None) -> GramStack:
        """Learn the statistics of each step on a square training stack, and normalise it."""
        self.statistics_ = []
        for name, chosen in self._plan(stack.names):
            statistics, stack = _FIT[name](stack, chosen, sample_weight)
            self.statistics_.append({"step": np.array(name), "chosen": chosen, **statistics})
        return stack

    def apply(self, stack: GramStack) -> GramStack:
        """Normalise a stack whose columns are the training samples, with the training statistics."""
        for statistics in self.statistics_:
            if str(statistics["step"]) == "center":
                stack = _center(stack, statistics)
            else:
                stack = _scale(stack, statistics)
        return stack

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

    def _plan(self, names: Sequence[str]) -> list[tuple[str, NDArray[np.bool_]]]:
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


def _shares(stack: GramStack, weight: NDArray | None) -> NDArray[np.float64]:
    """Weights of samples in a mean, shape (n,)."""
    return np.full(len(stack), 1.0 / len(stack)) if weight is None else weight / weight.sum()


def _fit_center(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Fitted:
    before, shares = stack.diagonal(), _shares(stack, weight)
    means = stack.apply(shares)
    statistics = {"columns": means, "grand": means @ shares, "chosen": chosen, "alive": np.ones(stack.n_kernels)}
    if weight is not None:
        statistics["shares"] = shares
    centered = _center(stack, statistics)
    # what rounding leaves of a constant kernel must not be blown up by a later step
    rounding = 100.0 * np.finfo(stack.dtype).eps * np.abs(before).max(axis=1, initial=0.0)
    dead = chosen & (np.abs(centered.diagonal()[:, shares > 0.0]).max(axis=1, initial=0.0) <= rounding)
    statistics["alive"] = np.where(dead, 0.0, 1.0)
    return statistics, _with_zeros(centered, statistics["alive"])


def _center(stack: GramStack, statistics: Mapping[str, NDArray]) -> GramStack:
    shares = statistics.get("shares")
    centered = stack.centered(statistics["columns"], statistics["grand"], statistics["chosen"], shares)
    return _with_zeros(centered, statistics["alive"])


def _with_zeros(stack: GramStack, alive: NDArray) -> GramStack:
    """Set kernels to exact zero where ``alive`` is 0."""
    if alive.all():
        return stack
    rows, columns, _ = stack.shape
    return stack.scaled(np.repeat(alive[:, None], rows, axis=1), np.repeat(alive[:, None], columns, axis=1))


def _fit_cosine(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Fitted:
    columns = np.where(chosen[:, None], _inverse_root(stack.diagonal()), 1.0)
    statistics = {"columns": columns, "from_rows": np.array(True), "chosen": chosen}
    return statistics, stack.scaled(columns, columns)


def _fit_trace(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Fitted:
    total = len(stack) if weight is None else weight.sum()
    return _fit_factor(stack, chosen, total * (stack.diagonal() @ _shares(stack, weight)))


def _fit_variance(stack: GramStack, chosen: NDArray[np.bool_], weight: NDArray | None) -> Fitted:
    shares = _shares(stack, weight)
    diagonal = stack.diagonal() @ shares
    rounding = 100.0 * np.finfo(stack.dtype).eps * np.abs(diagonal)
    sampled = stack.by_entry and len(stack) >= MANY
    if sampled:
        mean, error = _sampled_mean(stack, shares)
        error /= np.maximum(np.maximum(diagonal - mean, rounding), np.finfo(float).tiny)
        sampled = bool((error <= ERROR).all())
    variance = diagonal - (mean if sampled else stack.quadratic_forms(shares))
    statistics, scaled = _fit_factor(stack, chosen, np.where(variance <= rounding, 0.0, variance))
    if sampled:
        logger.info("variance of kernels from a sample of pairs: relative standard error %.2g", error.max())
        statistics["error"] = error
    return statistics, scaled


def _sampled_mean(stack: GramStack, shares: NDArray) -> tuple[NDArray, NDArray]:
    """The mean of all entries of each kernel from a sample of pairs, and its standard error.

    Samples are cut into groups at random, and all pairs within a group are read. Every sample is in as many pairs as
    any other, so that samples that are near to all others, or far from them, add nothing to the error.
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


def _fit_factor(stack: GramStack, chosen: NDArray[np.bool_], size: NDArray) -> Fitted:
    """Divide each kernel by its ``size``; the factor is split evenly between rows and columns."""
    factor = np.where(chosen, _inverse_root(size), 1.0)
    columns = np.repeat(factor[:, None], len(stack), axis=1)
    statistics = {"columns": columns, "from_rows": np.array(False), "factor": factor, "chosen": chosen}
    return statistics, stack.scaled(columns, columns)


def _scale(stack: GramStack, statistics: Mapping[str, NDArray]) -> GramStack:
    if statistics["from_rows"]:
        try:
            diagonal = stack.diagonal()
        except ValueError:
            raise ValueError(
                'normalize="cosine" needs k(x, x) of new samples, which a precomputed test kernel does not hold. '
                "For cross-validation pass gram_stack(K), whose slices know it; for new samples pass "
                "DenseStack(K, symmetric=False, self_similarity=...), or normalise both kernels before fitting."
            ) from None
        rows = np.where(statistics["chosen"][:, None], _inverse_root(diagonal), 1.0)
    else:
        rows = np.repeat(statistics["factor"][:, None], stack.shape[0], axis=1)
    return stack.scaled(rows, statistics["columns"])


def _inverse_root(values: NDArray) -> NDArray:
    """``1 / sqrt(values)``, and 1 where a value is not positive: a zero kernel stays zero."""
    positive = values > 0.0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, values, 1.0)), 1.0)


_FIT = {"center": _fit_center, "cosine": _fit_cosine, "trace": _fit_trace, "variance": _fit_variance}
