"""CSKL: kernel weights between 0 and 1 that sum to t, or exactly t kernels."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any

from numpy.typing import NDArray

from multikernel.estimators.average import C_GRID
from multikernel.estimators.mkl import checked_options
from multikernel.estimators.parameters import Restartable, described, estimator
from multikernel.estimators.registry import register
from multikernel.estimators.task_weights import TaskWeightsClassifier
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack, parse_memory
from multikernel.io.state import REAL, Maybe, anything, attributes
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.monitor import Result
from multikernel.solvers.cskl.continuation import CappedProblem, follow
from multikernel.solvers.cskl.exact import SelectionProblem, exact_selection
from multikernel.solvers.cskl.reduced_gradient import CAPPED_SOLVERS
from multikernel.solvers.mkl.catalogue import PATIENCE


@described
class CappedWeightsClassifier(TaskWeightsClassifier):
    """Base class: kernel weights between 0 and 1 that sum to t; a subclass says where t comes from (``_wanted_t``).

    Parameters
    ----------
    exact : bool
        Whether weights are 0 or 1: exactly t kernels.
    solver : {"auto", "newton", "reduced-gradient", "lp", "silp"}
        All solve the same problem; not used with ``exact=True``. "reduced-gradient" and "lp" are the two of [GMSB11],
        with their misprints put right, "silp" cutting planes [SRSS06], "newton" [CR08], which "auto" takes.
    max_iter : int
        Maximum number of outer iterations per problem; with ``exact=True``, of rounds of 64 branches.
    solver_options : dict, optional
        More for the solver: ``{"away": False}`` for "lp" makes it the paper's. Unknown names are refused.

    Attributes
    ----------
    t_ : float
        The t that was used.
    selection_gap_ : float, or ndarray of shape (T,)
        With ``exact=True`` only, the same as ``dual_gap_``: no choice of t kernels is better by more than that.
    """

    C: float
    nu: float | None
    exact: bool
    solver: str
    solver_options: dict[str, Any] | None
    _state = attributes(t_=REAL, selection_gap_=Maybe(anything))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_choice("solver", CAPPED_SOLVERS)
        self._options()
        self._check_t()

    def _check_t(self) -> None:
        t = self._wanted_t()
        if t is None:
            return
        if not isinstance(t, numbers.Real) or not float(t) >= 1.0:
            raise ValueError(
                f"t={t!r} must be a number from 1 to the number of kernels: it is the sum of the weights."
            )
        if self.exact and float(t) != round(float(t)):
            raise ValueError(f"exact=True needs a whole number of kernels, got t={t!r}: round t, or set exact=False.")

    @abstractmethod
    def _wanted_t(self) -> Any:
        """The t asked for; None for the default."""

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[Any]:
        F, t = stack.n_kernels, self._wanted_t()
        self.t_ = float((F + 1) // 2 if t is None else t)
        if self.t_ > F:
            raise ValueError(f"t={t!r} kernels cannot be chosen out of {F}: lower t to at most {F}.")
        chosen, memory = CappedSimplex(self.t_), parse_memory(self.memory)
        inners = self._svms(tasks, sample_weight, self.nu)
        if not self.exact:
            return [CappedProblem(stack, inner, chosen, memory) for inner in inners]
        return [SelectionProblem(stack, inner, chosen, memory) for inner in inners]

    def _solve(self, problem: Any, monitor: Any, start: Any) -> None:
        if self.exact:
            if start is not None:  # weights of another t, scaled
                start = problem.weight_set.weights(start[0]), start[1]
            exact_selection(problem, monitor, start, max_iter=self.max_iter, **self._options())
            return
        monitor.patience = PATIENCE + problem.n_kernels
        if start is not None:
            weights, alpha = start[0], problem.inner.repair(start[1])
            if not problem.holds(weights):
                start = follow(problem, monitor, weights, alpha)
                if start is None:
                    return
            elif not monitor.history and monitor(weights, alpha):
                return  # nothing left to do: so it is along paths, and for a second fit to the same data
        CAPPED_SOLVERS[self.solver](problem, monitor, start, max_iter=self.max_iter, **self._options())

    def _options(self) -> dict[str, Any]:
        """``solver_options`` after a check that the method in use takes them."""
        return checked_options(exact_selection if self.exact else CAPPED_SOLVERS[self.solver], self.solver_options)

    def _store(self, results: list[Result], intercepts: Sequence[Any]) -> None:
        super()._store(results, intercepts)
        if self.exact:
            self.selection_gap_ = self.dual_gap_
        elif hasattr(self, "selection_gap_"):
            del self.selection_gap_


@register("cskl", title="CSKL, t = F/2", grid={"C": C_GRID}, order=14)
@estimator
class CSKLClassifier(Restartable, CappedWeightsClassifier):
    """Controlled sparsity kernel learning: weights between 0 and 1 that sum to t, or exactly t kernels.

    Each problem is

        min over {0 ≤ g ≤ 1, Σ g = t} of  Σ_tasks  max over alpha in A of  linear(alpha) − ½ Σ_j g_j alpha' K_j alpha,

    which equals the maximum over alpha of ``linear(alpha) − ½ (sum of the t largest alpha' K_j alpha)``
    [GMSB11, eq. (3.9)]. It is convex, and ``dual_gap_`` proves how near to the optimum the solution is. t = 1 is
    :class:`~multikernel.MKLClassifier` with p = 1; t = F is the SVM on the sum of the kernels.

    t is *not* the number of kernels with a weight, as [GMSB11] has it: at the optimum the t-th largest quadratic form
    is shared by several kernels, which get weights between 0 and 1. ``n_kernels_`` says how many there are.
    ``exact=True`` allows the weights 0 and 1 only and finds the best t kernels, with a proof by branch and bound.
    That problem is not convex, and a proof may take long with more than 30 kernels; ``max_time`` gives the best
    choice found and the gap that is left.

    Parameters
    ----------
    t : float, optional
        Sum of the weights, from 1 to the number of kernels F; a whole number with ``exact=True``. By default half
        of the kernels, rounded up.
    warm_start : bool
        Whether to start from the solution of the previous fit, whatever its t.

    See Also
    --------
    CSKLClassifierCV : t chosen by cross-validation.
    cskl_path : solutions for all t.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from multikernel import CSKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> kernels = [RBF(columns=[j]) for j in range(8)]
    >>> relaxed = CSKLClassifier(kernels, t=3).fit(X, y)
    >>> exact = CSKLClassifier(kernels, t=3, exact=True).fit(X, y)
    >>> relaxed.n_kernels_ >= 3, exact.n_kernels_, bool(exact.objective_ >= relaxed.objective_)
    (True, 3, True)
    """

    t: float | None = None
    C: float = 1.0
    nu: float | None = None
    exact: bool = False
    solver: str = "auto"
    _: KW_ONLY
    solver_options: dict[str, Any] | None = None

    def _wanted_t(self) -> Any:
        return self.t
