"""Numbers that describe kernels: by their definitions, on every storage, of sums as of single kernels."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from multikernel import gram_stack, metrics
from multikernel.kernels import RBF, Linear, Nystroem

WITH_LABELS = (metrics.alignment, metrics.centred_alignment, metrics.margin)
WITHOUT = (
    metrics.frobenius_norm,
    metrics.trace_norm,
    metrics.spectral_ratio,
    metrics.numerical_rank,
    metrics.radius,
)


def by_definition(name, K, y):
    n = len(K)
    H = np.eye(n) - 1.0 / n
    classes = np.unique(y)
    Y = np.where(y == classes[1], 1.0, -1.0)[:, None] if len(classes) == 2 else (y[:, None] == classes).astype(float)
    if name in ("alignment", "centred_alignment"):
        A, T = (K, Y @ Y.T) if name == "alignment" else (H @ K @ H, H @ Y @ Y.T @ H)
        return np.sum(A * T) / np.linalg.norm(A) / np.linalg.norm(T)
    if name == "margin":
        pairs = [(a, b) for a in classes for b in classes if a < b]
        return min(hull_distance(K, np.where(y == a, 1.0, np.where(y == b, -1.0, 0.0))) for a, b in pairs)
    values = np.linalg.eigvalsh(K)
    if name == "radius":
        b = cp.Variable(n, nonneg=True)
        value = np.diagonal(K) @ b - cp.quad_form(b, cp.psd_wrap(K))
        return np.sqrt(cp.Problem(cp.Maximize(value), [cp.sum(b) == 1]).solve(solver="CLARABEL"))
    return {
        "frobenius_norm": np.linalg.norm(K),
        "trace_norm": np.abs(values).sum(),
        "spectral_ratio": (values.sum() / np.linalg.norm(K) - 1.0) / (np.sqrt(n) - 1.0),
        "numerical_rank": np.linalg.matrix_rank(K, tol=1e-8 * values[-1]),
    }[name]


def hull_distance(K, signs):
    gamma = cp.Variable(len(K), nonneg=True)
    sums = [cp.sum(gamma[signs > 0]) == 1, cp.sum(gamma[signs < 0]) == 1, gamma[signs == 0] == 0]
    square = cp.quad_form(cp.multiply(signs, gamma), cp.psd_wrap(K))
    return np.sqrt(max(cp.Problem(cp.Minimize(square), sums).solve(solver="CLARABEL"), 0.0))


@pytest.fixture(scope="module", params=["dense", "lazy", "features"])
def task(request):
    rng = np.random.default_rng(0)
    y = np.arange(36) % 3
    X = rng.normal(size=(36, 4)) + y[:, None]
    kernels = [RBF(columns=[0, 1], gamma=2.0), Linear(), RBF(gamma=0.3)]
    if request.param == "features":
        kernels = [Nystroem(kernel=kernel, rank=6) for kernel in kernels]
    stack = gram_stack(X, kernels, memory="3kB" if request.param == "lazy" else None)
    return stack, y


@pytest.mark.numerical
@pytest.mark.parametrize("metric", WITH_LABELS + WITHOUT, ids=lambda f: f.__name__)
def test_every_number_is_that_of_its_definition(task, metric):
    stack, y = task
    labels = [y] if metric in WITH_LABELS else []
    weights = np.array([0.5, 0.2, 1.0])
    tolerance = {"rtol": 1e-6, "atol": 2e-4}  # hulls that meet: the root of a gap of 1e-8
    K = stack.to_array()
    expected = [by_definition(metric.__name__, kernel, y) for kernel in K]
    assert_allclose(metric(stack, *labels), expected, **tolerance)
    assert metric(K[0], *labels) == pytest.approx(expected[0], rel=1e-6, abs=2e-4)
    combined = by_definition(metric.__name__, np.tensordot(weights, K, axes=1), y)
    assert metric(stack, *labels, weights=weights) == pytest.approx(combined, rel=1e-6, abs=2e-4)


def test_margins_of_classes_apart_are_precise():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    K = X @ X.T
    assert metrics.margin(K, y) == pytest.approx(hull_distance(K, np.where(y == 0, -1.0, 1.0)), rel=1e-6)


@pytest.mark.parametrize("metric", WITH_LABELS + WITHOUT, ids=lambda f: f.__name__)
def test_scales_and_degenerate_kernels(metric):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    K = X @ X.T
    labels = [y] if metric in WITH_LABELS else []
    power = {"margin": 0.5, "radius": 0.5, "frobenius_norm": 1.0, "trace_norm": 1.0}.get(metric.__name__, 0.0)
    assert metric(1e4 * K, *labels) == pytest.approx(1e4**power * metric(K, *labels), rel=1e-6, abs=2e-2)
    found = metric(np.stack([np.zeros((20, 20)), np.ones((20, 20)), np.eye(20)], axis=-1), *labels)
    assert np.isfinite(found).all()


def test_many_kernels_are_taken_a_few_at_a_time_and_tables_hold_them_all():
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(15, 4)), np.arange(15) % 3
    stack = gram_stack(X, [RBF(gamma=g) for g in np.geomspace(1e-3, 10.0, 70)])
    table = metrics.kernel_metrics(stack, y)
    assert {len(values) for values in table.values()} == {70}
    assert_allclose(table["centred_alignment"], [metrics.centred_alignment(K, y) for K in stack.to_array()])
    assert_allclose(table["frobenius_norm"], metrics.frobenius_norm(stack))
    assert_allclose(table["spectral_ratio"], metrics.spectral_ratio(stack))
    assert (np.diff(metrics.spectral_ratio(stack, normalize=False)) > 0.0).all()


@pytest.mark.parametrize("metric", WITH_LABELS + WITHOUT, ids=lambda f: f.__name__)
def test_generators_and_rows_of_numbers_are_kernels_too(metric):
    X, y = np.random.default_rng(3).normal(size=(12, 3)), np.arange(12) % 2
    kernels, labels = [X @ X.T, np.eye(12)], [y] if metric in WITH_LABELS else []
    assert_allclose(metric((K for K in kernels), *labels), metric(kernels, *labels))
    assert metric(kernels[0].tolist(), *labels) == pytest.approx(metric(kernels[0], *labels))
    with pytest.raises(ValueError, match="finite numbers, one per kernel"):
        metric(kernels, *labels, weights=[np.nan, 1.0])


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="give 4 of at least two"):
        metrics.alignment(np.eye(4), [0, 1, 1])
    with pytest.raises(ValueError, match="give 4 of at least two"):
        metrics.margin(np.eye(4), [1, 1, 1, 1])
