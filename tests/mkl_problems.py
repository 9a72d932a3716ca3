"""Small problems, ordinary and awkward; a rule and a penalty of one's own."""

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
    n_kernels=5, n=30, rank=4, C=3.0, *, ridge=0.01, duplicate=False, zero=False, n_positive=None, sizes=False, seed=0
):
    """Gram matrices (F, n, n), signs and C."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n, rank))
    K = factors @ factors.transpose(0, 2, 1) / rank
    if rank > 1:
        K = K + ridge * np.eye(n)
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


def make_class_kernels(n_classes=3, n=40, n_kernels=4, *, spread=1.5, rest=0.3, n_good=2, linear=True, seed=0):
    """Kernels (F, n, n) of mean diagonal one on views of which the first tell the classes apart, and labels.

    Every other kernel is linear, if any, and the others are RBF.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    kernels = []
    for f in range(n_kernels):
        X = rng.normal(size=(n, 3)) + (spread if f < n_good else rest) * rng.normal(size=(n_classes, 3))[y]
        D = ((X[:, None] - X) ** 2).sum(axis=-1)
        K = X @ X.T if linear and f % 2 else np.exp(-D / D.mean())
        kernels.append(K * n / np.trace(K))
    return np.stack(kernels), y


class CubicSum:
    """K(d) = Σ d_k³ K_k: a user's own rule, with as many parameters as kernels."""

    def combine(self, stack, d):
        return stack.combine(d**3)

    def gradient(self, stack, d, alpha):
        return 3 * d**2 * stack.quadratic_forms(alpha).reshape(len(d), -1).sum(axis=1)


class Quartic:
    """r(d) = Σ d⁴: a user's own penalty, without a bound."""

    def value(self, d):
        return float((d**4).sum())

    def gradient(self, d):
        return 4 * d**3
