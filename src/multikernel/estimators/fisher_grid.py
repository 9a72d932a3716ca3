"""One fold of a grid over p and λ: kernels once, warm starts along p, and scores on what was held out."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from multikernel.estimators.base import Prepared
from multikernel.estimators.fisher import MKFDAClassifier
from multikernel.gram import parse_memory
from multikernel.problems.fisher import FDAProblem, fda_system
from multikernel.problems.fisher_system import RegularizedFDA, class_scores, fisher_targets
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.blas import one_blas_thread
from multikernel.runtime.monitor import Monitor
from multikernel.runtime.threads import map_threads
from multikernel.solvers.fisher.catalogue import solve_fda

Score = Callable[[FDAProblem, NDArray, NDArray], float]


class GridRun:
    """All points of a grid on the same training kernels.

    For each λ, p falls from point to point: the weights of the larger p, scaled, are near those of the smaller, and
    at p = ∞ they are known. The kernels, and for low-rank stacks the products of their features, are shared by all
    values of λ, and so is the combined kernel as long as the weights are. A factorisation is not: an
    eigendecomposition, which would serve all λ of the paper's ten, takes as long as 15 Cholesky factorisations at
    n = 680 and 20 at n = 2,000, and from the second iteration on the weights differ.

    Parameters
    ----------
    model : MKFDAClassifier
        Its solver, tolerance, limits and classes.
    prepared : Prepared
        Training kernels and labels.
    score : callable
        Problem, weights and alpha to a number that is the larger the better.
    ps, regs : ndarray
        The grid.

    Attributes
    ----------
    scores, gaps : ndarray of shape (len(ps), len(regs))
    weights : ndarray of shape (len(ps), len(regs), F)
    """

    def __init__(self, model: MKFDAClassifier, prepared: Prepared, score: Score, ps: NDArray, regs: NDArray):
        self.model, self.score, self.ps, self.regs = model, score, ps, regs
        codes = np.searchsorted(model.classes_, prepared.tasks.labels)
        self.sample_weight = prepared.sample_weight
        self.targets = fisher_targets(codes, len(model.classes_), self.sample_weight)
        self.system: Any = fda_system(prepared.stack, float(regs[0]), parse_memory(model.memory))
        self.scores = np.full((len(ps), len(regs)), np.nan)
        self.gaps = np.full((len(ps), len(regs)), np.nan)
        self.weights = np.zeros((len(ps), len(regs), prepared.stack.n_kernels))

    def solve(self, n_threads: int, advance: Callable[[], None]) -> None:
        """Solve and score every point; ``advance`` is called after each."""
        self.system.prepare(LpBall(float(self.ps.max())).start(self.system.n_kernels))  # where every λ begins
        jobs = [(k, advance) for k in range(len(self.regs))]
        with one_blas_thread() if n_threads > 1 else contextlib.nullcontext():
            map_threads(self._path, jobs, n_threads)
        self.system = None

    def _path(self, k: int, advance: Callable[[], None]) -> None:
        """All p for the λ number k, from large to small."""
        reg = float(self.regs[k])
        system = self.system.with_reg(reg)
        inner = RegularizedFDA(self.targets, reg, self.sample_weight)
        start = None
        for row in np.argsort(-self.ps, kind="stable"):
            problem = FDAProblem(system, inner, LpBall(float(self.ps[row])))
            monitor = Monitor(problem, self.model.tol)
            solve_fda(problem, monitor, start, self.model.solver, self.model.max_iter)
            result = monitor.result()
            start = result.weights, result.alpha
            self.weights[row, k], self.gaps[row, k] = result.weights, result.certificate.relative_gap
            self.scores[row, k] = self.score(problem, result.weights, result.alpha)
            advance()


class HeldOut(ClassifierMixin, BaseEstimator):
    """Predictions for held-out samples at any point of a grid: their kernels are computed once.

    Scorers see a classifier whose ``X`` is always the held-out samples.
    """

    def __init__(self, model: MKFDAClassifier, X: Any):
        n = model.n_features_in_ if model._X is None else model._X.shape[0]
        model._keep_training_rows(np.arange(n))
        self.stack = model._test_stack(X)
        self.classes_ = model.classes_
        self._here = threading.local()  # several λ may be scored at a time

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> HeldOut:
        """Nothing to do: solutions come through ``at``."""
        return self

    def at(self, problem: FDAProblem, weights: NDArray, alpha: NDArray) -> HeldOut:
        """The same samples, predicted with this solution from now on."""
        projections = self.stack.combine(weights) @ problem.inner.coefficients(alpha)
        centroids = problem.intercept(weights, alpha)
        self._here.scores = class_scores(projections, centroids)
        self._here.signed = projections[:, 0] - centroids.mean(axis=0)[0]
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """As that of :class:`~multikernel.MKFDAClassifier`."""
        return self._here.signed if len(self.classes_) == 2 else self._here.scores

    def predict(self, X: Any) -> NDArray:
        """Labels of the held-out samples."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


@contextlib.contextmanager
def progress(total: int, title: str, verbose: Any) -> Iterator[Callable[[], None]]:
    """A function to call after each of ``total`` points, with a bar if ``verbose``."""
    if not verbose:
        yield lambda: None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc=title, unit="point") as bar:
        yield bar.update
