"""UFO-MKL: multiclass MKL that sets kernels to exact zero, with nothing to tune in the optimiser."""

from __future__ import annotations

from dataclasses import KW_ONLY
from functools import partial

from multikernel.estimators.obscure import C_GRID, GroupNormClassifier
from multikernel.estimators.parameters import estimator
from multikernel.estimators.registry import register
from multikernel.runtime.run import Solver
from multikernel.solvers.ufo import ufo, ufo_norm


@register("ufo", title="UFO-MKL", params={"max_iter": 300}, grid={"C": C_GRID}, order=32)
@estimator
class UFOMKLClassifier(GroupNormClassifier):
    r"""Multiclass MKL with a (2, p) and a (2, 1) group norm [OJ11].

    One problem for all classes, with w_j the part of w that belongs to kernel j:

        min over w of  f(w) = λ/2 ‖w‖²_{2,p} + a Σ_j ‖w_j‖ + (1/Σs) Σ_i s_i ℓ_i(w),
        ℓ_i(w) = max_r (cost(y_i, r) + w·φ(x_i, r) − w·φ(x_i, y_i)),

    λ = 1/(C Σs). By default p = q/(q − 1) with q = 2 ln F, which makes the convergence depend on the number of
    kernels as log F only; below three kernels p = 2. ``a`` > 0 sets whole kernels to exact zero. There is no bias.

    Parameters
    ----------
    a : float
        Factor of the (2, 1) norm; the larger, the fewer kernels.
    p : float, optional
        Group norm, 1 < p ≤ 2, instead of the default.

    Attributes
    ----------
    weights_ : ndarray of shape (F,)
        Kernel weights d_j with ``w_j = d_j Σ_i alpha_i φ_j(x_i)``, so that scores are ``Σ_j d_j K_j alpha``; zero
        for kernels that are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multikernel import UFOMKLClassifier
    >>> from multikernel.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> kernels = [RBF(columns=[k]) for k in range(4)]
    >>> model = UFOMKLClassifier(kernels, C=10.0, a=0.05, tol=0.05, random_state=0).fit(X, y)
    >>> model.n_kernels_ < 4
    True
    """

    C: float = 1.0
    a: float = 0.0
    _: KW_ONLY
    p: float | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require("a", self.a >= 0, "must not be negative: it is the factor of the (2, 1) norm.")
        between = self.p is None or 1.0 < self.p <= 2.0
        self._require("p", between, "must be above 1 and at most 2, or None for the norm of UFO-MKL.")

    def _group_norm(self, n_kernels: int) -> float:
        return ufo_norm(n_kernels) if self.p is None else float(self.p)

    def _sparsity(self) -> float:
        return float(self.a)

    def _solver(self) -> Solver:
        return partial(ufo, max_iter=self.max_iter, random_state=self.random_state)
