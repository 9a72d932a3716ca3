"""The ℓp-norm MKL classifier: one problem, many solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

from multikernel.estimators.base import TrainingData
from multikernel.estimators.classifier import C_GRID, TaskWeightsClassifier
from multikernel.estimators.parameters import Restartable, estimator
from multikernel.estimators.registry import register
from multikernel.gram import parse_memory
from multikernel.problems.groups import parse_groups
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.vskl import VSKLProblem
from multikernel.problems.weight_sets import LpBall
from multikernel.runtime.run import Run, Solver
from multikernel.solvers.catalogue import PATIENCE, find_solver, solve_by_name


@register("mkl", title="MKL, p = 1", grid={"C": C_GRID}, order=10)
@register("mkl-p2", title="MKL, p = 2", params={"p": 2.0}, grid={"C": C_GRID}, order=11)
@estimator
class MKLClassifier(Restartable, TaskWeightsClassifier):
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
    p : float
        Norm of the weights, from 1 to infinity; from 1e6 on it is taken for infinity.
    solver : {"auto", "newton", "simplemkl", "silp", "silp-taylor", "level", "lp", "group-lasso", "smo"}
        All solve the same problem. "simplemkl" [RBCG08] and "level" [XJKL09] are for p = 1, "lp" [KBSZ11], "smo"
        [VSTV10] and "silp-taylor" [KBSLMZ09] for p > 1, "silp" [SRSS06], "group-lasso" [XJYKL10] and "newton" [CR08]
        for any. "auto" takes "newton", and "lp" for p > 1 with more than 100 kernels.
    groups : list of lists, or array-like of shape (F,), optional
        Groups of kernels, by index or name, or a label for each kernel. Then the problem is that of VSKL
        [NDRBBR09]: every group counts, but within a group weights are sparse. p is not used; solvers are "mirror",
        the published mirror descent, and "newton", which "auto" takes.

    Attributes
    ----------
    weights_ : ndarray of shape (F,), or (T, F) for T tasks with weights of their own
        Kernel weights. With ``groups`` the effective weights, of no particular norm.

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

    p: float = 1.0
    C: float = 1.0
    solver: str = "auto"
    _: KW_ONLY
    nu: float | None = None
    groups: Any = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        LpBall(self.p)
        if self.groups is not None:
            self._check_group_parameters()

    def _check_group_parameters(self) -> None:
        if self.p != 1.0:
            raise ValueError(f"groups= does not use p, got p={self.p!r}. Leave p=1.0.")
        find_solver("vskl", self.solver)
        if self.nu is not None:
            raise ValueError("groups= works only with C-SVMs: leave nu=None.")

    def _problems(self, data: TrainingData, run: Run) -> Sequence[Any]:
        inners, memory = self._svms(data, self.nu), parse_memory(self.memory)
        if self.groups is not None:
            groups = parse_groups(self.groups, data.stack.names)
            return [VSKLProblem(data.stack, inner, groups, memory) for inner in inners]
        return [MinMaxProblem(data.stack, inner, LpBall(self.p), memory) for inner in inners]

    def _solver(self) -> Solver:
        method = "mkl" if self.groups is None else "vskl"
        return partial(solve_by_name, method=method, solver=self.solver, max_iter=self.max_iter)

    def _patience(self) -> int:
        return PATIENCE
