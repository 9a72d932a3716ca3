"""The parts of the SVM engine against their definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from multikernel.datasets import load_digits_quadrants
from multikernel.kernels import KernelFamily
from multikernel.svm.binary import CSVM
from multikernel.svm.decomposition import BoundedNewton, Progress
from multikernel.svm.interior import MOST_STEPS, _Path, interior_point
from multikernel.svm.quadratic_program import (
    DenseOperator,
    as_operator,
    fill_sum,
    project_to_sum,
    weighted_quantile,
    with_sum,
)

seeds = st.integers(0, 2**31)


def box(generator, n):
    lo = -generator.choice([0.0, 1.0, 100.0], size=n)
    return lo, lo + generator.choice([0.0, 1.0, 50.0], size=n)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 12), seeds)
def test_projection_is_in_the_box_has_the_sum_and_is_a_common_shift(n, seed):
    generator = np.random.default_rng(seed)
    lo, hi = box(generator, n)
    b = generator.normal(size=n) * 10
    total = lo.sum() + generator.random() * (hi.sum() - lo.sum())
    point = project_to_sum(b, lo, hi, total)
    assert np.all((lo <= point) & (point <= hi))
    assert_allclose(point.sum(), total, atol=1e-9)
    # the KKT conditions of the nearest point: inside the box the shift is the same, at a bound it goes beyond
    shift = b - point
    inside = (point > lo) & (point < hi)
    if inside.any():
        common = shift[inside].mean()
        assert_allclose(shift[inside], common, atol=1e-9)
        assert np.all(shift[(point == lo) & (lo < hi)] <= common + 1e-9)
        assert np.all(shift[(point == hi) & (lo < hi)] >= common - 1e-9)


@pytest.mark.parametrize("bound", [1e2, 1e14, 1e40])
def test_bounds_far_beyond_the_entries_do_not_change_the_projection(bound):
    b = np.array([3.0, 1.0, 0.5, -0.25, -2.0])
    point = project_to_sum(b, np.zeros(5), np.full(5, bound), 2.5)
    assert_allclose(point, [2.25, 0.25, 0.0, 0.0, 0.0], atol=1e-15)
    assert_allclose(project_to_sum(-b, np.full(5, -bound), np.zeros(5), -2.5), -point, atol=1e-15)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 12), seeds)
def test_settled_and_filled_points_are_feasible(n, seed):
    generator = np.random.default_rng(seed)
    lo, hi = box(generator, n)
    lo = np.minimum(lo, 0.0)
    hi = np.maximum(hi, 0.0)
    total = lo.sum() + generator.random() * (hi.sum() - lo.sum())
    for point in (with_sum(generator.normal(size=n) * 100, lo, hi, total), fill_sum(lo, hi, total)):
        assert np.all((lo <= point) & (point <= hi))
        assert_allclose(point.sum(), total, atol=1e-9)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 10), seeds)
def test_quantile_minimises_the_piecewise_linear_function(n, seed):
    generator = np.random.default_rng(seed)
    points = generator.integers(-3, 4, size=n).astype(float)
    weights = generator.choice([0.0, 1.0, 2.5], size=n)
    mass = generator.random() * weights.sum()

    def value(x):
        return weights @ np.maximum(x - points, 0.0) - mass * x

    assert value(weighted_quantile(points, weights, mass)) <= min(map(value, points)) + 1e-9


@pytest.mark.parametrize("n_groups", [0, 1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_an_exact_newton_step_is_the_minimum_over_the_box(n_groups, seed):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(30, 300))
    A = features @ features.T
    g = 75 * generator.normal(size=30)
    b, lo, hi = np.zeros(30), np.full(30, -0.5), np.full(30, 0.5)
    new, exact = BoundedNewton(A, g, b, lo, hi, 12, n_groups).step()
    groups = np.zeros((30, n_groups))
    for k, part in enumerate([slice(0, 30)] if n_groups == 1 else [slice(0, 12), slice(12, 30)][:n_groups]):
        groups[part, k] = 1.0
    inside, _ = interior_point(A, -g, lo, hi, groups, np.zeros(n_groups), tol=1e-12)

    def value(d):
        return 0.5 * d @ A @ d + g @ d

    assert value(new) < value(b)
    assert value(new) >= value(inside) - 1e-8 * abs(value(inside))
    assert_allclose(groups.T @ new, 0.0, atol=1e-10)
    assert exact
    assert_allclose(new, inside, atol=1e-5)
    assert 0 < np.count_nonzero((new == lo) | (new == hi)) < 15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_operator_equals_numpy(dtype):
    generator = np.random.default_rng(0)
    K = generator.normal(size=(70, 70)).astype(dtype)
    K = K + K.T
    operator = as_operator(K)
    assert isinstance(operator, DenseOperator)
    assert operator.K is K  # not copied
    alpha = np.where(generator.random(70) < 0.4, generator.normal(size=70), 0.0)
    assert_allclose(operator.matvec(alpha), K.astype(float) @ alpha, rtol=1e-12, atol=1e-12)
    rows, columns = generator.permutation(70)[:20], generator.permutation(70)[:9]
    assert_array_equal(operator.submatrix(rows, columns), K[np.ix_(rows, columns)])
    assert_array_equal(operator.diagonal(), K.diagonal())


def test_an_uphill_end_is_never_followed_backwards_out_of_the_box():
    A, b = np.diag([1.0, 1.0]), np.array([0.5, 0.5])
    newton = BoundedNewton(A, np.array([1e-3, 0.0]), b, np.zeros(2), np.ones(2), 2, 0)
    uphill = b + np.array([1e-6, 0.0])
    # along b -> uphill the objective is least a thousand steps behind b, where it must not look
    assert_array_equal(newton._best_end([uphill]), b)
    downhill = b - np.array([1e-4, 0.0])
    assert_array_equal(newton._best_end([uphill, downhill]), downhill)


@pytest.mark.parametrize("label", range(10))
def test_every_label_of_the_digits_is_solved_on_a_polynomial_kernel(label):
    digits = load_digits_quadrants()
    rows = np.arange(0, len(digits.y), 2)
    K = KernelFamily.fit([digits.kernels[7]], digits.X[rows]).evaluate(digits.X[rows])[0]
    svm = CSVM(np.where(digits.y[rows] == label, 1.0, -1.0), 100.0)
    _, alpha = svm.solve(K, tol=1e-3)
    assert svm.violation(alpha) == 0.0
    assert svm.certificate(K @ alpha, alpha).relative_gap <= 1e-3


def test_the_interior_point_method_stops_where_rounding_ends_its_path(monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(32, 3)) + 1e8
    ends = generator.choice([-1.0, 1.0], size=32)
    steps, plain_step = [], _Path.step
    monkeypatch.setattr(_Path, "step", lambda path: steps.append(1) or plain_step(path))
    interior_point(
        X @ X.T, ends, np.minimum(ends, 0.0), np.maximum(ends, 0.0), np.ones((32, 1)), np.zeros(1), tol=1e-12
    )
    assert len(steps) < MOST_STEPS // 2


def test_bounds_far_beyond_every_coefficient_cost_no_steps(monkeypatch):
    generator = np.random.default_rng(0)
    X, signs = generator.normal(size=(40, 3)), generator.choice([-1.0, 1.0], size=40)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 10)
    steps, plain_step = [], _Path.step
    monkeypatch.setattr(_Path, "step", lambda path: steps.append(1) or plain_step(path))
    CSVM(signs, C=1e50).solve(K, tol=1e-3, warn=False)
    assert len(steps) <= 40


def test_bursts_that_leave_the_gap_as_it_is_are_stopped_soon():
    progress = Progress()
    for burst in range(1, 100):
        if progress.stalled(value=float(burst), gap=1.0 - 1e-6 * burst):
            break
    assert burst == 11


def test_kernels_that_are_nearly_constant_are_told_from_others():
    X = np.random.default_rng(0).normal(size=(20, 3))
    assert DenseOperator((X + 1e7) @ (X + 1e7).T).is_far_from_origin()
    assert not DenseOperator((X + 10.0) @ (X + 10.0).T).is_far_from_origin()
    assert not DenseOperator(np.zeros((20, 20))).is_far_from_origin()
