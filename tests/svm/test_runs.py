"""How the SVM engine runs: kernels out of memory, many labels, stopping and resuming."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from references import Ball, svm_bracket
from sklearn.datasets import load_breast_cancer

from multikernel.svm import CSVM, LabelSVMs, NuSVM
from multikernel.svm.decomposition import Decomposition


def problem(n=300, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 4))
    signs = np.where(X[:, 0] + generator.normal(size=n) > 0, 1.0, -1.0)
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 4), signs


class CountingOperator:
    """A kernel that only gives blocks, and remembers the largest."""

    def __init__(self, K):
        self._K, self.shape, self.largest = K, K.shape, 0

    def diagonal(self):
        return self._K.diagonal().copy()

    def submatrix(self, rows, columns):
        self.largest = max(self.largest, len(rows), len(columns))
        return np.ascontiguousarray(self._K[np.ix_(rows, columns)])

    def matvec(self, alpha):
        return self._K @ alpha


@pytest.mark.parametrize(
    "svm",
    [
        lambda s: CSVM(s, 10.0),
        lambda s: CSVM(s, 0.1),
        lambda s: CSVM(s, 10.0, bias=False),
        lambda s: NuSVM(s, 0.4),
    ],
    ids=["C", "small C", "box", "nu"],
)
def test_operator_gives_the_dense_answer_within_its_working_size(svm):
    K, signs = problem()
    operator = CountingOperator(K)
    value, alpha = svm(signs).solve(operator, tol=1e-7, working_size=100)
    assert 0 < operator.largest <= 100
    assert_allclose(value, svm(signs).solve(K, tol=1e-7)[0], rtol=1e-6)
    assert svm(signs).violation(alpha) == 0.0


@pytest.mark.parametrize("bias", [True, False])
def test_labels_equal_separate_solves_and_leave_unused_samples_out(bias):
    K, _ = problem(120)
    generator = np.random.default_rng(1)
    signs = generator.choice([-1.0, 0.0, 1.0], size=(120, 5))
    labels = LabelSVMs(signs, 2.0, bias=bias)
    values, alpha = labels.solve(K, tol=1e-8)
    assert alpha.shape == (120, 5)
    assert np.all(alpha[signs == 0.0] == 0.0)
    assert labels.violation(alpha) == 0.0
    for t in range(5):
        used = np.flatnonzero(signs[:, t])
        value, _ = CSVM(signs[used, t], 2.0, bias=bias).solve(K[np.ix_(used, used)], tol=1e-8)
        assert_allclose(values[t], value, rtol=1e-7)
    scores = K @ alpha
    quadratic = np.einsum("nt,nt->t", alpha, scores)
    assert_allclose(labels.linear(alpha) - 0.5 * quadratic, values, rtol=1e-9)
    assert labels.certificate(scores, alpha).relative_gap <= 1e-7
    assert_array_equal(labels.intercept(scores), [svm.intercept(f) for svm, f in zip(labels.svms, scores.T)])


def test_labels_accept_a_warm_start():
    K, _ = problem(120)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=(120, 3))
    labels = LabelSVMs(signs, 2.0)
    values, alpha = labels.solve(K, tol=1e-8)
    again, same = labels.solve(K, alpha, tol=1e-7)
    assert_array_equal(alpha, same)
    assert_allclose(values, again, rtol=1e-12)
    assert_allclose(labels.solve(K, 5 * alpha, tol=1e-8)[0], values, rtol=1e-7)
    with pytest.raises(ValueError, match="one column per label"):
        labels.solve(K, alpha[:, :2])


def test_same_input_gives_the_same_bits():
    K, signs = problem()
    first, second = (CSVM(signs, 100.0).solve(K.copy(), tol=1e-8) for _ in range(2))
    assert first[0] == second[0]
    assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_run_resumed_from_alpha_goes_on_bit_by_bit(stop):
    K, signs = problem(400)
    operator = CountingOperator(K)  # small working sets: several bursts
    svm = CSVM(signs, 1e3)
    trail = []
    options = {"tol": 1e-9, "working_size": 60, "warn": False}
    value, alpha = svm.solve(operator, monitor=lambda a: trail.append(a.copy()), max_iter=12, **options)
    assert len(trail) > stop
    stored = []
    svm.solve(operator, monitor=lambda a: stored.append(a.copy()) or len(stored) == stop, **options)
    assert len(stored) == stop
    assert_array_equal(stored[-1], trail[stop - 1])
    resumed, again = svm.solve(operator, stored[-1], max_iter=12 - stop, **options)
    assert_array_equal(again, alpha)
    assert resumed == pytest.approx(value, rel=1e-12)


def test_monitor_sees_feasible_points_that_improve():
    K, signs = problem(400)
    svm = CSVM(signs, 1e3)
    values = []

    def watch(alpha):
        assert svm.violation(alpha) == 0.0
        values.append(svm.linear(alpha) - 0.5 * alpha @ K @ alpha)
        return False

    svm.solve(CountingOperator(K), monitor=watch, tol=1e-8, working_size=60, max_iter=10, warn=False)
    assert len(values) > 1
    assert np.all(np.diff(values) >= -1e-9 * abs(values[-1]))


@pytest.mark.parametrize("C", [1.0, 1e3, 1e6])
def test_raw_measurements_far_from_the_origin_are_solved(C):
    X, y = load_breast_cancer(return_X_y=True)
    signs, K = 2.0 * y[:300] - 1.0, X[:300] @ X[:300].T  # features from 1e-3 to 4e3, not scaled
    svm = CSVM(signs, C)
    values = []
    value, alpha = svm.solve(K, tol=1e-4, monitor=lambda a: values.append(svm.certificate(K @ a, a).dual))
    proof = svm.certificate(K @ alpha, alpha)
    truth = svm_bracket(K[None], svm, Ball(1.0), SimpleNamespace(weights=np.ones(1), alpha=alpha))
    truth.proves(proof, 1e-4)
    assert abs(value - truth.lower) <= truth.rounding
    assert value >= max(values) - 2 * truth.rounding
    assert truth.rounding <= 1e-3 * value  # which is what makes the last two say something


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_kernel_of_zeros_is_solved_from_a_warm_start(dtype):
    signs = np.where(np.arange(70) < 10, 1.0, -1.0)
    start = np.zeros(70)
    start[:10] = np.random.default_rng(0).uniform(0.0, 0.5, 10)
    start[10:30] = -start.sum() / 20
    value, alpha = CSVM(signs, 1.0).solve(np.zeros((70, 70), dtype), start, tol=1e-6)
    assert_allclose(value, 20.0, rtol=1e-6)
    assert_allclose(alpha.sum(), 0.0, atol=1e-9)


@pytest.mark.parametrize("offset", [1e7, 1e8, 3e8])
def test_bursts_end_where_they_would_chase_the_rounding_of_samples_far_from_the_origin(offset):
    generator = np.random.default_rng(0)
    X, signs = generator.normal(size=(40, 3)) + offset, generator.choice([-1.0, 1.0], size=40)
    bursts = []
    CSVM(signs, C=100.0).solve(X @ X.T, tol=1e-3, monitor=lambda alpha: bursts.append(1), warn=False)
    assert len(bursts) <= 2


def test_bursts_end_where_fresh_scores_keep_disproving_what_they_claim(monkeypatch):
    K, signs = problem(n=40)
    bursts = []

    def boastful(engine, b, scores, gap):
        """A little progress, with scores that have drifted and say that all is done."""
        bursts.append(1)
        moved = b + 1e-3 * len(bursts) * engine.problem.hi * (signs > 0) + 1e-3 * len(bursts) * engine.problem.lo
        return moved, K @ moved + 1e-3, 0.0

    monkeypatch.setattr(Decomposition, "burst", boastful)
    CSVM(signs, bias=False).solve(K, tol=1e-6, warn=False)
    assert len(bursts) == 2
