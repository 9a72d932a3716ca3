"""Regularised Fisher discriminant analysis on one kernel: a linear system [YMBCK10, eqs. (11) and (18)]."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multikernel.problems.certificate import Certificate
from multikernel.svm.cholesky import CholeskyFactor

Matrix = NDArray[np.float64]


def fisher_targets(codes: ArrayLike, n_classes: int, sample_weight: ArrayLike | None = None) -> Matrix:
    """Centred labels H, shape (n, 1) for two classes, else (n, M).

    Two classes: ``1/m₊`` for class 1 and ``−1/m₋`` for class 0 [YMBCK10, eq. (4)]. More: column k is
    ``√(n/m_k) − √(m_k/n)`` for class k and ``−√(m_k/n)`` for the others [YMBCK10, sect. 3.2]. With weights m_k is the
    weight of class k and n that of all samples.

    Parameters
    ----------
    codes : array-like of shape (n,)
        Classes 0 … M−1; each must occur.
    n_classes : int
        Number of classes M.
    sample_weight : array-like of shape (n,), optional

    Examples
    --------
    >>> from multikernel.problems.fisher_system import fisher_targets
    >>> fisher_targets([0, 1, 1], 2).ravel()
    array([-1. ,  0.5,  0.5])
    """
    codes = np.asarray(codes)
    counts = np.bincount(codes, sample_weight, minlength=n_classes).astype(np.float64)
    if len(counts) != n_classes or not counts.all():
        kind = "a sample" if sample_weight is None else "a sample of positive weight"
        raise ValueError(f"each of the {n_classes} classes needs {kind}; there are {counts.tolist()}.")
    if n_classes == 2:
        return np.where(codes == 1, 1.0 / counts[1], -1.0 / counts[0])[:, None]
    shares = counts / counts.sum()
    return (codes[:, None] == np.arange(n_classes)) / np.sqrt(shares) - np.sqrt(shares)


class RegularizedFDA:
    """The inner problem of multiple kernel Fisher discriminant analysis.

    With labels H of shape (n, c) it is least squares with a ridge, and alpha so scaled that scores are ``K @ alpha``:

        min over w of  ‖Φw − H‖² + λ‖w‖²   =   λ tr(H'(K + λI)⁻¹H)
          =   max over alpha of  λ (2⟨H, alpha⟩ − λ‖alpha‖² − ⟨alpha, K alpha⟩).

    This is minus the value of [YMBCK10, eqs. (4) and (14)], whose alpha is 2λ times the one used here.

    Weights s of samples make it ``Σ s_i ‖w·φ_i − h_i‖² + λ‖w‖²``. With D the diagonal matrix of √s that is the same
    problem with DΦ, DKD and DH in the place of Φ, K and H, so everything here is in these terms: kernels come as DKD,
    scores are D times the projections, and the coefficients of the discriminants are D alpha.

    Parameters
    ----------
    targets : array-like of shape (n, c)
        Centred labels; see :func:`fisher_targets`.
    reg : float
        Regularisation λ, positive.
    sample_weight : array-like of shape (n,), optional
        Weights s; ones by default.

    Attributes
    ----------
    targets : ndarray of shape (n, c)
        DH.
    roots : ndarray of shape (n,)
        Diagonal of D.
    codes : ndarray of shape (n,)
        Classes 0 … M−1, read off the targets.
    member : ndarray of shape (n, M)
        √s_i where sample i is of a class, else 0.

    Examples
    --------
    >>> import numpy as np
    >>> from multikernel.problems.fisher_system import RegularizedFDA, fisher_targets
    >>> inner = RegularizedFDA(fisher_targets([0, 1], 2), reg=1.0)
    >>> value, alpha = inner.solve(np.eye(2))
    >>> round(value, 12), alpha.ravel()
    (1.0, array([-0.5,  0.5]))
    """

    def __init__(self, targets: ArrayLike, reg: float, sample_weight: ArrayLike | None = None):
        labels = np.array(targets, dtype=np.float64)
        if labels.ndim != 2:
            raise ValueError(f"targets have shape {labels.shape}, expected (n, c): one column per discriminant.")
        if not (reg > 0.0 and np.isfinite(reg)):
            raise ValueError(f"reg={reg!r} must be positive: it keeps the linear system solvable, try 1e-3.")
        self.reg = float(reg)
        self.roots = np.ones(len(labels)) if sample_weight is None else np.sqrt(np.asarray(sample_weight, float))
        self.targets = self.roots[:, None] * labels
        self.codes = (labels[:, 0] > 0.0).astype(np.intp) if labels.shape[1] == 1 else labels.argmax(axis=1)
        classes = np.arange(max(labels.shape[1], 2))
        self.member = self.roots[:, None] * (self.codes[:, None] == classes)

    def coefficients(self, alpha: Matrix) -> Matrix:
        """``D alpha``: what projections of any sample are linear in, shape (n, c)."""
        return self.roots[:, None] * alpha

    def centroids(self, scores: Matrix) -> Matrix:
        """Weighted means of the projections of each class, from ``scores`` (n, c), shape (M, c)."""
        return (self.member.T @ scores) / (self.member**2).sum(axis=0)[:, None]

    def solve(self, K: NDArray, warm: NDArray | None = None, *, tol: float = 0.0) -> tuple[float, Matrix]:
        """Value and alpha on a kernel (n, n), by one Cholesky factorisation; ``warm`` and ``tol`` are not needed."""
        alpha = CholeskyFactor(K, self.reg).solve(self.targets)
        return self.value(alpha), alpha

    def value(self, alpha: Matrix) -> float:
        """``λ⟨H, alpha⟩``: the optimum, if alpha solves the system."""
        return self.reg * float(np.vdot(self.targets, alpha))

    def start(self) -> Matrix:
        """The alpha of a kernel that is zero."""
        return self.targets / self.reg

    def linear(self, alpha: Matrix) -> float:
        """What the dual objective has beside the kernels: ``λ (2⟨H, alpha⟩ − λ‖alpha‖²)``."""
        return self.reg * (2.0 * float(np.vdot(self.targets, alpha)) - self.reg * float(np.vdot(alpha, alpha)))

    def dual(self, alpha: Matrix, form: float) -> float:
        """The dual objective at the best multiple of alpha, given ``form = ⟨alpha, K alpha⟩``.

        ``max over t of λ(2t⟨H, alpha⟩ − t²(λ‖alpha‖² + form))``; zero if alpha is.
        """
        size = self.reg * float(np.vdot(alpha, alpha)) + form
        return self.reg * float(np.vdot(self.targets, alpha)) ** 2 / size if size > 0.0 else 0.0

    def primal(self, scores: Matrix, alpha: Matrix) -> float:
        """``‖scores − H‖² + λ⟨alpha, scores⟩``, the ridge objective of w = Σ alpha_i φ(x_i)."""
        residual = self.targets - scores
        return float(np.vdot(residual, residual)) + self.reg * max(float(np.vdot(alpha, scores)), 0.0)

    def certificate(self, scores: Matrix, alpha: Matrix) -> Certificate:
        """Bounds on the optimum for any alpha, from ``scores = K @ alpha``."""
        return Certificate(self.primal(scores, alpha), self.dual(alpha, max(float(np.vdot(alpha, scores)), 0.0)))


def class_scores(projections: Matrix, centroids: Matrix) -> Matrix:
    """``z·c_k − ½‖c_k‖²`` for each projection z and centroid c_k, shape (n, M): largest at the nearest centroid."""
    return projections @ centroids.T - 0.5 * (centroids**2).sum(axis=1)


def leave_one_out(
    inner: RegularizedFDA, alpha: Matrix, diagonal: NDArray, class_sums: Matrix, *, centered: bool
) -> Matrix:
    """``−½‖z_i − c_k‖²`` of each sample i to the class centroids, in the model fitted without it, shape (n, M).

    With ``P = (K + λI)⁻¹``, taking sample i out of the system changes alpha_l by ``−P_li alpha_i / P_ii``. The
    projection of sample i becomes ``H_i − alpha_i / P_ii``, and the centroids of the other samples follow from sums
    over the classes of rows of P: exact, without another factorisation. Centred kernels and labels are centred again
    without sample i, which the others would give away otherwise: that is the system with a free constant, and
    ``P − P11'P / (1'P1)`` takes the place of P. Kernel weights, the labels' values and the scale of the kernels stay.
    With weights of samples all of this holds for ``(DKD + λI)⁻¹`` and D1 in place of 1; sample i leaves with all its
    weight. Scores of samples without weight mean nothing.

    Parameters
    ----------
    inner : RegularizedFDA
        Targets and λ.
    alpha : ndarray of shape (n, c)
        Solution on all samples.
    diagonal : ndarray of shape (n,)
        Diagonal of ``(K + λI)⁻¹``.
    class_sums : ndarray of shape (n, M)
        ``(K + λI)⁻¹ @ inner.member``.
    centered : bool
        Whether the kernel was centred on these samples.
    """
    member, roots = inner.member, inner.roots
    if centered:
        row_sums = class_sums.sum(axis=1)  # PD1, which is D1/λ up to rounding; here the rounding must cancel
        share = row_sums / (roots @ row_sums)
        diagonal = diagonal - row_sums * share
        class_sums = class_sums - row_sums[:, None] * (share @ member)
        alpha = alpha - share[:, None] * (roots @ alpha)
    change = alpha / diagonal[:, None]  # (n, c)
    projections = (inner.targets - change) / np.where(roots > 0.0, roots, 1.0)[:, None]
    sums = member.T @ (inner.targets - inner.reg * alpha)  # (M, c): of the projections in the model of all samples
    scores = np.empty(member.shape)
    for k in range(member.shape[1]):
        own = member[:, k] ** 2
        count, alone = own.sum() - own, (own > 0.0).sum() == (own > 0.0)
        # sums of H − λ alpha over the class in the model without i, less the share of i itself: alpha_i is 0 there
        total = sums[k] + inner.reg * class_sums[:, k, None] * change - member[:, k, None] * inner.targets
        centroid = total / np.where(alone, 1.0, count)[:, None]
        scores[:, k] = -0.5 * ((projections - centroid) ** 2).sum(axis=1)
        scores[alone, k] = -np.inf  # nothing is left of the class
    return scores
