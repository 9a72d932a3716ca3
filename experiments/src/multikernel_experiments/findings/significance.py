"""Is a difference more than chance? Paired tests over splits and over data sets, and ranks of many methods."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEW = 5  # paired tests over fewer splits are flagged: their p-values hardly mean anything


def paired_t(differences: Sequence[float], n_train: float = math.inf, n_test: float = 0.0) -> float:
    """Two-sided p-value of the mean of paired differences over splits; ``nan`` for fewer than two.

    Training samples are shared by random splits, so that differences are not independent. The variance of their
    mean is taken as s² (1/k + n_test / n_train) instead of s² / k [NB03]; without sizes as the latter.

    Examples
    --------
    >>> from multikernel_experiments.findings.significance import paired_t
    >>> round(paired_t([0.01, 0.02, 0.03]), 4)
    0.0742
    >>> round(paired_t([0.01, 0.02, 0.03], n_train=100, n_test=100), 4)
    0.2254
    """
    from scipy.stats import t

    k = len(differences)
    if k < 2:
        return math.nan
    centre, deviation = float(np.mean(differences)), float(np.std(differences, ddof=1))
    if deviation <= 1e-12 * max(abs(centre), 1e-300):
        return 1.0 if centre == 0.0 else math.nan  # the same difference on every split: nothing to judge it by
    return float(2 * t.sf(abs(centre) / (deviation * math.sqrt(1 / k + n_test / n_train)), k - 1))


def sign_test(differences: Sequence[float] | NDArray, tie: float = 0.0) -> tuple[int, int, int, float]:
    """Wins, ties, losses, and the two-sided p-value that wins and losses are as likely; ties do not count.

    Examples
    --------
    >>> from multikernel_experiments.findings.significance import sign_test
    >>> sign_test([1.0, 2.0, 0.5, 3.0, 0.0, 1.0, -1.0])
    (5, 1, 1, 0.21875)
    """
    wins = sum(bool(value > tie) for value in differences)  # plain integers: powers of two below are large
    losses = sum(bool(value < -tie) for value in differences)
    n, k = wins + losses, min(wins, losses)
    p = min(1.0, 2 * sum(math.comb(n, j) for j in range(k + 1)) / 2**n) if n else 1.0
    return wins, len(differences) - n, losses, p


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """p-values corrected for as many tests as there are finite ones, step by step [Hol79].

    Examples
    --------
    >>> from multikernel_experiments.findings.significance import holm
    >>> holm({"a": 0.25, "b": 0.125, "c": 0.75})
    {'b': 0.375, 'a': 0.5, 'c': 0.75}
    """
    finite = sorted((p, key) for key, p in values.items() if math.isfinite(p))
    corrected, largest = {}, 0.0
    for k, (p, key) in enumerate(finite):
        largest = max(largest, min(1.0, p * (len(finite) - k)))
        corrected[key] = largest
    return {**corrected, **{key: p for key, p in values.items() if not math.isfinite(p)}}


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over data sets, 1 for the best, ties shared.

    Parameters
    ----------
    ranks : dict of str to float
        From the best to the worst.
    n_settings : int
    p : float
        Of Friedman's test that all methods are equal, in the form of Iman and Davenport [Dem06].
    critical_difference : float
        Of mean ranks, at level ``level``, by Nemenyi's test [Dem06].
    level : float
    """

    ranks: dict[str, float]
    n_settings: int
    p: float
    critical_difference: float
    level: float = 0.05

    def groups(self) -> list[list[str]]:
        """Largest runs of methods whose mean ranks do not differ by more than the critical difference."""
        keys = list(self.ranks)
        found: list[list[str]] = []
        for k, key in enumerate(keys):
            run = [other for other in keys[k:] if self.ranks[other] - self.ranks[key] <= self.critical_difference]
            if len(run) > 1 and (not found or run[-1] not in found[-1]):
                found.append(run)
        return found


def ranking(scores: Mapping[str, Sequence[float]], level: float = 0.05) -> Ranking:
    """Rank methods by scores on the same data sets, larger being better.

    Examples
    --------
    >>> from multikernel_experiments.findings.significance import ranking
    >>> found = ranking({"a": [0.9, 0.8, 0.7], "b": [0.8, 0.7, 0.7], "c": [0.1, 0.2, 0.3]})
    >>> {key: round(rank, 2) for key, rank in found.ranks.items()}
    {'a': 1.17, 'b': 1.83, 'c': 3.0}
    """
    from scipy.stats import f, rankdata, studentized_range

    keys, table = list(scores), np.array([list(values) for values in scores.values()], dtype=float)
    k, n = table.shape
    if k < 2 or n < 2 or not np.isfinite(table).all():
        raise ValueError(f"ranks need two methods and two data sets at least, and finite scores; got {k} × {n}")
    ranks: NDArray = rankdata(-np.round(table, 12), axis=0).mean(axis=1)
    chi2 = 12 * n / (k * (k + 1)) * float(((ranks - (k + 1) / 2) ** 2).sum())
    most = n * (k - 1)
    p = 0.0 if chi2 >= most * (1 - 1e-12) else float(f.sf((n - 1) * chi2 / (most - chi2), k - 1, (k - 1) * (n - 1)))
    q = float(studentized_range.ppf(1 - level, k, np.inf)) / math.sqrt(2)
    order = np.argsort(ranks, kind="stable")
    return Ranking({keys[j]: float(ranks[j]) for j in order}, n, p, q * math.sqrt(k * (k + 1) / (6 * n)), level)
