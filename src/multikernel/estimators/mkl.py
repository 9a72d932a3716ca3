"""The ℓp-norm MKL classifier: one problem, many solvers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multikernel.estimators.average import C_GRID
from multikernel.estimators.classifier import KernelSVMClassifier
from multikernel.estimators.registry import register
from multikernel.estimators.tasks import Tasks
from multikernel.gram import GramStack, parse_memory
from multikernel.problems.groups import parse_groups
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.vskl import VSKLProblem
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.monitor import Result
from multikernel.solvers.mkl.catalogue import PATIENCE, find_solver
from multikernel.solvers.vskl.mirror_descent import mirror_descent
from multikernel.solvers.vskl.newton import group_newton
from multikernel.svm import CSVM, LabelSVMs, NuSVM

WEIGHTS = ("shared", "per-class")
GROUP_SOLVERS = {"auto": group_newton, "newton": group_newton, "mirror": mirror_descent}


@register("mkl", title="MKL, p = 1", grid={"C": C_GRID}, order=10)
@register("mkl-p2", title="MKL, p = 2", params={"p": 2.0}, grid={"C": C_GRID}, order=11)
class MKLClassifier(KernelSVMClassifier):
    """ℓp-norm multiple kernel learning with an SVM.

    Each problem is

        min over {g ≥ 0, ‖g‖_p ≤ 1} of  Σ_tasks  max over alpha in A of  linear(alpha) − ½ Σ_j g_j alpha' K_j alpha,

    the optimum of SVMs on the kernel Σ_j g_j K_j, made as small as the weights allow [KBSZ11, eq. (9)]. It is convex,
    and comes with a proof: ``dual_gap_`` bounds the distance of ``objective_`` from the best value there is.

    p = 1 switches kernels off and is what most papers call MKL; the larger p, the more alike the weights, up to equal
    ones for p = ∞. Here p is the norm of the weights; a group norm r on the parts of w is the same family,
    with p = r / (2 − r).

    Parameters
    ----------
    kernels : list of kernels, "precomputed", or None
        What to combine. ``None``: linear and RBF kernels on all columns. The kernels are scaled to unit
        variance, the columns are not.
        "precomputed": X holds the kernels, shape (n, n, F), or is a Gram stack.
    p : float
        Norm of the weights, from 1 to infinity; from 1e6 on it is taken for infinity.
    C : float
        Price of an error.
    solver : {"auto", "newton", "simplemkl", "silp", "level", "lp", "group-lasso", "smo"}
        All solve the same problem. "simplemkl" [RBCG08] and "level" [XJKL09] are for p = 1, "lp" [KBSZ11] and "smo"
        [VSTV10] for p > 1, "silp" [SRSS06], "group-lasso" [XJYKL10] and "newton" [CR08] for any. "auto" takes
        "newton", and "lp" for p > 1 with more than 100 kernels.
    nu : float, optional
        If given, ν-SVMs in the scaling of [GMSB11, eq. (3.17)] instead of C-SVMs; C is not used then.
    weights : {"shared", "per-class"}
        With more than two classes: one set of weights for all binary tasks, which minimises the sum of their
        objectives, or weights for each task.
    groups : list of lists, or array-like of shape (F,), optional
        Groups of kernels, by index or name, or a label for each kernel. Then the problem is that of VSKL
        [NDRBBR09]: every group counts, but within a group weights are sparse. p is not used; solvers are "mirror",
        the published mirror descent, and "newton", which "auto" takes.
    multi_class : {"ovr", "ovo"}
        One task per class against the rest, or one per pair of classes.
    class_weight : dict, "balanced" or None
        Factor of C for each class.
    normalize : str, list, dict or None
        Normalisation of the kernels, fitted on training data: "center", "cosine", "trace", "variance", a chain of
        them, or one per kernel; see :class:`~multikernel.gram.Normalization`.
    psd : {"raise", "clip", "ignore"}
        What to do about a kernel that is not positive semi-definite.
    tol : float
        Relative duality gap at which to stop.
    max_iter : int
        Largest number of outer iterations of each problem.
    solver_options : dict, optional
        More for the solver: ``{"master": "taylor"}`` or ``{"chunking": True}`` for "silp", ``{"level": 0.9}`` for
        "level".
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
        Start from the solution of the previous fit.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) for T tasks with weights of their own
        Kernel weights. With ``groups`` the effective weights, of no particular norm.
    kernel_names_ : ndarray of shape (F,)
    n_kernels_ : int
        Kernels with a weight above 1e-8 of the largest, in any task.
    classes_ : ndarray of shape (M,)
    dual_coef_ : ndarray of shape (T, n_support)
        Signed dual coefficients; the decision function is Σ_j weights_j K_j(x, support) @ dual_coef_' + intercept_.
    support_ : ndarray of shape (n_support,)
        Training rows with a coefficient.
    intercept_ : ndarray of shape (T,)
    objective_, dual_gap_ : float, or ndarray of shape (T,) for problems solved separately
        Value of the problem, and its distance from the best lower bound proved.
    n_iter_ : int
    converged_ : bool
    history_ : list of dict

    See Also
    --------
    KernelAverageClassifier : equal weights, nothing learnt; the yardstick.
    mkl_path : solutions along C or p.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import MKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[0, 1], name="sepals"), RBF(columns=[2, 3], name="petals")]
    >>> model = MKLClassifier(kernels, C=10.0).fit(X, y)
    >>> model.weights_.round(1)
    array([0.2, 0.8])
    >>> model.dual_gap_ <= 1e-3 * model.objective_
    True
    """

    def __init__(
        self,
        kernels: Any = None,
        p: float = 1.0,
        C: float = 1.0,
        solver: str = "auto",
        *,
        nu: float | None = None,
        weights: str = "shared",
        groups: Any = None,
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
        self.p = p
        self.C = C
        self.solver = solver
        self.nu = nu
        self.weights = weights
        self.groups = groups
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
        LpBall(self.p)
        if self.weights not in WEIGHTS:
            raise ValueError(f'weights={self.weights!r} is not known: use "shared" or "per-class".')
        if self.groups is not None:
            self._check_group_parameters()

    def _check_group_parameters(self) -> None:
        if self.p != 1.0:
            raise ValueError(f"groups= does not use p, got p={self.p!r}. Leave p=1.0.")
        if self.solver not in GROUP_SOLVERS:
            known = ", ".join(map(repr, GROUP_SOLVERS))
            raise ValueError(f"with groups=, solver must be one of {known}, got {self.solver!r}.")
        if self.nu is not None:
            raise ValueError("groups= works only with C-SVMs: leave nu=None.")

    def _problems(self, stack: GramStack, tasks: Tasks, sample_weight: NDArray) -> Sequence[Any]:
        inners = svm_problems(self, tasks, sample_weight)
        memory = parse_memory(self.memory)
        if self.groups is not None:
            groups = parse_groups(self.groups, stack.names)
            return [VSKLProblem(stack, inner, groups, memory) for inner in inners]
        return [MinMaxProblem(stack, inner, LpBall(self.p), memory) for inner in inners]

    def _solve(self, problem: Any, monitor: Any, start: Any) -> None:
        monitor.patience = PATIENCE + problem.n_kernels
        if self.groups is not None:
            run = GROUP_SOLVERS[self.solver]
        else:
            if start is not None:  # perhaps from another p, whose weights prove nothing here
                start = problem.weight_set.settle(start[0]), start[1]
            one_task = isinstance(problem.inner, CSVM)
            run = find_solver(self.solver, float(self.p), problem.n_kernels, one_task=one_task).run
        run(problem, monitor, start, max_iter=self.max_iter, **checked_options(run, self.solver_options))

    def _weights_of(self, results: list[Result]) -> NDArray[np.float64]:
        weights = np.stack([result.weights for result in results]).astype(np.float64)
        return weights[0] if len(results) == 1 else weights


def checked_options(run: Callable[..., None], given: Any) -> dict[str, Any]:
    """``solver_options`` after a check that the solver takes them."""
    parameters = inspect.signature(run).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "max_iter"]
    wrong = [name for name in given or {} if name not in known]
    if wrong:
        takes = ", ".join(map(repr, known)) or "none"
        raise ValueError(
            f"solver_options has {wrong[0]!r}, which {run.__name__} does not accept: it accepts {takes}."
        )
    return dict(given or {})


def svm_problems(model: Any, tasks: Tasks, sample_weight: NDArray) -> list[Any]:
    """The inner problems of a model with parameters C, nu and weights: one for all tasks, or one a task."""
    if model.weights == "shared" and tasks.signs.shape[1] > 1:
        return [LabelSVMs(tasks.signs, model.C, sample_weight=sample_weight, nu=model.nu)]
    if model.nu is None:
        return [CSVM(column, model.C, sample_weight=sample_weight) for column in tasks.signs.T]
    return [NuSVM(column, model.nu, sample_weight=sample_weight) for column in tasks.signs.T]
