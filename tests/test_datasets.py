"""Data sets: shapes, order of the pixels, and the planted answers checked against their definitions."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from references import conic_value
from sklearn.datasets import load_digits

from multikernel.datasets import (
    _equidistant_points,
    data_home,
    load_digits_quadrants,
    make_kernel_problem,
    make_views,
)

PLANTED = [
    {},
    {"n_samples": 6, "n_kernels": 1, "n_relevant": 1},
    {"n_kernels": 4, "n_relevant": 4, "C": 10.0, "intercept": 0.0},
    {"p": 1.5},
    {"n_kernels": 3, "n_relevant": 3, "p": 2.0, "intercept": -1.0, "C": 0.1},
]


def test_quadrants_reassemble_to_the_images():
    digits = load_digits_quadrants()
    cut = {view: digits.X[:, columns].reshape(-1, 4, 4) * 16 for view, columns in digits.views.items()}
    top = np.concatenate([cut["top-left"], cut["top-right"]], axis=2)
    bottom = np.concatenate([cut["bottom-left"], cut["bottom-right"]], axis=2)
    images, y = load_digits(return_X_y=True)
    assert_array_equal(np.concatenate([top, bottom], axis=1).reshape(-1, 64), images)
    assert_array_equal(digits.y, y)


def test_digits_have_three_kernels_on_each_quadrant():
    digits = load_digits_quadrants()
    assert [type(k).__name__ for k in digits.kernels] == ["Linear", "Polynomial", "RBF"] * 4
    assert [k.columns for k in digits.kernels[::3]] == list(digits.views.values())
    assert len({k.name for k in digits.kernels}) == 12


def test_the_same_seed_gives_the_same_views_and_another_seed_others():
    first, again, other = (make_views(random_state=seed) for seed in (0, 0, 1))
    assert_array_equal(first.X, again.X)
    assert_array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)


def test_informative_views_separate_the_classes_as_far_as_promised():
    data = make_views(40_000, n_informative=1, n_noise=1, n_features=3, n_classes=3, separation=2.5, random_state=0)
    for columns, distance in zip(data.views.values(), (2.5, 0.0)):
        means = np.stack([data.X[data.y == label, columns].mean(axis=0) for label in range(3)])
        gaps = np.linalg.norm(means[[0, 0, 1]] - means[[1, 2, 2]], axis=1)
        # a mean of 13,000 samples is off by 0.009 in each of three coordinates
        assert_allclose(gaps, distance, atol=0.05)
    assert data.relevant.tolist() == [True, False]


@pytest.mark.parametrize(("count", "dimension"), [(2, 1), (2, 5), (4, 3), (10, 12)])
def test_centroids_are_equidistant(count, dimension):
    points = _equidistant_points(count, dimension, 1.7, np.random.default_rng(0))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert_allclose(distances[~np.eye(count, dtype=bool)], 1.7)


def test_view_classes_are_balanced():
    data = make_views(101, n_classes=4, random_state=0)
    assert sorted(np.bincount(data.y)) == [25, 25, 25, 26]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_classes": 1}, "two classes"),
        ({"n_samples": 2, "n_classes": 3}, "one sample for each"),
        ({"n_informative": 0, "n_noise": 0}, "at least one view"),
        ({"n_noise": -1}, "at least one view"),
        ({"n_features": 2, "n_classes": 5}, "at least n_classes - 1 = 4"),
    ],
)
def test_impossible_views_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_views(**arguments)


@pytest.mark.parametrize("arguments", PLANTED)
@pytest.mark.parametrize("seed", range(3))
def test_planted_kernels_are_symmetric_and_positive_semi_definite(arguments, seed):
    problem = make_kernel_problem(random_state=seed, **arguments)
    assert_array_equal(problem.K, problem.K.transpose(0, 2, 1))
    smallest = np.linalg.eigvalsh(problem.K)[:, 0]
    assert (smallest > -1e-12 * np.abs(problem.K).max()).all()


@pytest.mark.parametrize("arguments", PLANTED)
@pytest.mark.parametrize("seed", range(3))
def test_planted_alpha_satisfies_the_optimality_conditions_of_the_svm(arguments, seed):
    problem = make_kernel_problem(random_state=seed, **arguments)
    size = problem.y * problem.alpha
    margin = problem.y * (np.tensordot(problem.weights, problem.K, 1) @ problem.alpha + problem.intercept)
    assert abs(problem.alpha.sum()) < 1e-12 * problem.C * len(size)
    assert size.min() >= 0.0
    assert size.max() <= problem.C
    at_zero, at_bound = size == 0.0, size == problem.C
    free = ~(at_zero | at_bound)
    assert free.any()
    assert_allclose(margin[free], 1.0, atol=1e-9)
    assert (margin[at_zero] > 1.0).all()
    assert (margin[at_bound] < 1.0).all()


@pytest.mark.parametrize("arguments", PLANTED)
@pytest.mark.parametrize("seed", range(3))
def test_planted_bounds_meet(arguments, seed):
    problem = make_kernel_problem(random_state=seed, **arguments)
    q = np.einsum("i,fij,j->f", problem.alpha, problem.K, problem.alpha)
    linear = np.abs(problem.alpha).sum()
    dual_norm = np.inf if problem.p == 1.0 else problem.p / (problem.p - 1.0)
    assert_allclose(np.linalg.norm(problem.weights, problem.p), 1.0)
    assert_allclose(linear - problem.weights @ q / 2, problem.objective)  # value at the planted weights
    assert_allclose(linear - np.linalg.norm(q, dual_norm) / 2, problem.objective)  # bound proved by alpha


def test_an_independent_solver_finds_the_planted_objective():
    problem = make_kernel_problem(n_samples=14, n_kernels=4, random_state=3)
    alpha, largest = cp.Variable(14), cp.Variable()
    size = cp.multiply(problem.y, alpha)
    limits = [cp.quad_form(alpha, cp.psd_wrap(K)) <= largest for K in problem.K]
    constraints = [size >= 0, size <= problem.C, cp.sum(alpha) == 0, *limits]
    value = conic_value(cp.Problem(cp.Maximize(cp.sum(size) - largest / 2), constraints))
    assert_allclose(value, problem.objective, rtol=1e-6)
    assert_allclose(alpha.value, problem.alpha, atol=1e-4)


def test_planted_weights_have_as_many_zeros_as_asked():
    problem = make_kernel_problem(n_kernels=7, n_relevant=3, random_state=0)
    assert np.count_nonzero(problem.weights) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 7}, "even number"),
        ({"n_samples": 4}, "at least 6"),
        ({"n_relevant": 6}, "between 1 and n_kernels=5"),
        ({"p": 0.5}, "at least 1"),
        ({"C": 0.0}, "C positive"),
    ],
)
def test_impossible_kernel_problems_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_kernel_problem(**arguments)


def test_data_home_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("MULTIKERNEL_DATA", raising=False)
    assert data_home() is None
    monkeypatch.setenv("MULTIKERNEL_DATA", str(tmp_path))
    assert data_home() == tmp_path


def test_data_home_refuses_a_folder_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setenv("MULTIKERNEL_DATA", str(tmp_path / "missing"))
    with pytest.raises(FileNotFoundError, match=r"missing.*not a folder"):
        data_home()
