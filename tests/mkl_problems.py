"""Small MKL problems, ordinary and awkward, and their optimum by a conic solver."""

import cvxpy as cp
import numpy as np

AWKWARD = {
    "plain": {},
    "one kernel": {"n_kernels": 1},
    "more kernels than samples": {"n_kernels": 30, "n": 16},
    "rank-one kernels": {"rank": 1},
    "duplicate kernels": {"duplicate": True},
    "a zero kernel": {"zero": True},
    "tiny C": {"C": 1e-4},
    "huge C": {"C": 1e4},
    "unbalanced classes": {"n_positive": 2},
    "kernels of very different size": {"sizes": True},
}


def make_kernels(
    n_kernels=5, n=30, rank=4, C=3.0, *, duplicate=False, zero=False, n_positive=None, sizes=False, seed=0
):
    """Gram matrices (F, n, n), signs and C."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n, rank))
    K = factors @ factors.transpose(0, 2, 1) / rank
    if rank > 1:
        K = K + 0.01 * np.eye(n)
    if duplicate:
        K[1] = K[0]
    if zero:
        K[2] = 0.0
    if sizes:
        K *= 10.0 ** rng.uniform(-3, 3, size=(n_kernels, 1, 1))
    target = factors[0, :, 0] + factors[-1, :, -1] + 0.7 * rng.normal(size=n)
    signs = np.where(target > np.median(target), 1.0, -1.0)
    if n_positive is not None:
        signs = np.where(np.arange(n) < n_positive, 1.0, -1.0)
    return K, signs, C


def conic_optimum(K, signs, C, p, nu=None):
    """max over alpha of linear(alpha) − ½ ‖q(alpha)‖_{p/(p−1)}, from eigenvectors, by a conic solver."""
    n = len(signs)
    alpha = cp.Variable(n)
    forms = []
    for kernel in K:
        values, vectors = np.linalg.eigh(kernel)
        keep = values > 1e-13 * max(values.max(), 1e-300)
        root = vectors[:, keep] * np.sqrt(values[keep])
        forms.append(cp.sum_squares(root.T @ alpha) if keep.any() else cp.Constant(0.0))
    q = cp.hstack(forms)
    norm = cp.sum(q) if p >= 1e6 else cp.max(q) if p == 1.0 else cp.pnorm(q, p / (p - 1.0), approx=False)
    y = cp.multiply(signs, alpha)
    if nu is None:
        objective, constraints = cp.sum(y) - 0.5 * norm, [y >= 0, y <= C, cp.sum(alpha) == 0]
    else:
        objective, constraints = -0.5 * norm, [y >= 0, y <= 1.0 / n, cp.sum(alpha) == 0, cp.sum(y) >= nu]
    return cp.Problem(cp.Maximize(objective), constraints).solve(solver=cp.CLARABEL)
