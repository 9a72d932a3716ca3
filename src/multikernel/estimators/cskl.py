"""CSKL: kernel weights between 0 and 1 that sum to t, or exactly t kernels."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.average import C_GRID
from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.mkl import WEIGHTS, checked_options, svm_problems
from multikernel.estimators.registry import register
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack, parse_memory
from multikernel.io.state import REAL, Anything, Maybe, attributes
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.monitor import Result
from multikernel.solvers.cskl.continuation import CappedProblem, follow
from multikernel.solvers.cskl.exact import SelectionProblem, exact_selection
from multikernel.solvers.cskl.reduced_gradient import CAPPED_SOLVERS
from multikernel.solvers.mkl.catalogue import PATIENCE


@register("cskl", title="CSKL, t = F/2", grid={"C": C_GRID}, order=14)
class CSKLClassifier(KernelSVMClassifier):
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
    kernels : list of kernels, "precomputed", or None
        What to combine. ``None``: linear and RBF kernels on all columns. The kernels are scaled to unit
        variance, the columns are not.
        "precomputed": X holds the kernels, shape (n, n, F), or is a Gram stack.
    t : float, optional
        Sum of the weights, from 1 to the number of kernels F; a whole number with ``exact=True``. By default half
        of the kernels, rounded up.
    C : float
        Price of an error.
    nu : float, optional
        If given, ν-SVMs in the scaling of [GMSB11, eq. (3.17)] instead of C-SVMs; C is not used then.
    exact : bool
        Whether weights are 0 or 1: exactly t kernels.
    solver : {"auto", "newton", "reduced-gradient", "lp", "silp"}
        All solve the same problem; not used with ``exact=True``. "reduced-gradient" and "lp" are the two of [GMSB11],
        with their misprints put right, "silp" cutting planes [SRSS06], "newton" [CR08], which "auto" takes.
    weights : {"shared", "per-class"}
        With more than two classes: one set of weights for all binary tasks, which minimises the sum of their
        objectives, or weights for each task.
    multi_class : {"ovr", "ovo"}
        One task per class against the rest, or one per pair of classes.
    class_weight : dict, "balanced" or None
        Factor of C for each class.
    normalize : str, list, dict or None
        Normalisation of the kernels, fitted on training data; see
        :class:`~multikernel.gram.Normalization`.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite.
    tol : float
        Relative gap at which to stop.
    max_iter : int
        Largest number of outer iterations of each problem; with ``exact=True``, of rounds of 64 branches.
    solver_options : dict, optional
        More for the solver: ``{"away": False}`` for "lp" makes it the paper's. Unknown names are refused.
    max_time : float, optional
        Seconds for the whole fit.
    memory : int or str, optional
        Budget for kernels, in bytes or as "2GB"; beyond it they are computed on the fly.
    random_state : int, optional
        Not used: the method is deterministic. It is here because all estimators have it.
    n_jobs : int, optional
        Threads over problems that are solved separately.
    verbose : bool
        Show a progress bar.
    callback : callable, optional
        Called with each row of ``history_`` as it comes; a true value stops the fit.
    checkpoint : path, optional
        File that keeps the state of a long fit, to go on after a kill.
    warm_start : bool
        Start from the solution of the previous fit, whatever its t.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) for T tasks with weights of their own
    kernel_names_ : ndarray of shape (F,)
    n_kernels_ : int
        Kernels with a weight above 1e-8 of the largest, in any task.
    t_ : float
        The t that was used.
    classes_ : ndarray of shape (M,)
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients; the decision function is Σ_j weights_j K_j(x, support) @ dual_coef_' + intercept_.
    support_ : ndarray of shape (n_support,)
    intercept_ : ndarray of shape (T,)
    objective_, dual_gap_ : float, or ndarray of shape (T,) for problems solved separately
        Value of the problem, and its distance from the best lower bound proved.
    selection_gap_ : float, or ndarray of shape (T,)
        With ``exact=True`` only, the same as ``dual_gap_``: no choice of t kernels is better by more than that.
    n_iter_ : int
    converged_ : bool
    history_ : list of dict

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

    _state = attributes(t_=REAL, selection_gap_=Maybe(Anything()))

    def __init__(
        self,
        kernels: Any = None,
        t: float | None = None,
        C: float = 1.0,
        nu: float | None = None,
        exact: bool = False,
        solver: str = "auto",
        *,
        weights: str = "shared",
        multi_class: str = "ovr",
        class_weight: Any = None,
        normalize: Any = None,
        psd: str = "raise",
        tol: float = 1e-3,
        max_iter: int = 1000,
        solver_options: dict[str, Any] | None = None,
        max_time: float | None = None,
        memory: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: Any = False,
        callback: Any = None,
        checkpoint: Any = None,
        warm_start: bool = False,
    ):
        self.kernels = kernels
        self.t = t
        self.C = C
        self.nu = nu
        self.exact = exact
        self.solver = solver
        self.weights = weights
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.normalize = normalize
        self.psd = psd
        self.tol = tol
        self.max_iter = max_iter
        self.solver_options = solver_options
        self.max_time = max_time
        self.memory = memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.checkpoint = checkpoint
        self.warm_start = warm_start

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.weights not in WEIGHTS:
            raise ValueError(f'weights={self.weights!r} is not known: use "shared" or "per-class".')
        if self.solver not in CAPPED_SOLVERS:
            known = ", ".join(map(repr, CAPPED_SOLVERS))
            raise ValueError(f"solver={self.solver!r} is not known: use one of {known}.")
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

    def _wanted_t(self) -> Any:
        """The t asked for; None for the default."""
        return self.t

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[Any]:
        F, t = stack.n_kernels, self._wanted_t()
        self.t_ = float((F + 1) // 2 if t is None else t)
        if self.t_ > F:
            raise ValueError(f"t={t!r} kernels cannot be chosen out of {F}: lower t to at most {F}.")
        chosen, memory = CappedSimplex(self.t_), parse_memory(self.memory)
        inners = svm_problems(self, tasks, sample_weight)
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

    def _weights_of(self, results: list[Result]) -> NDArray[np.float64]:
        weights = np.stack([result.weights for result in results]).astype(np.float64)
        return weights[0] if len(results) == 1 else weights
