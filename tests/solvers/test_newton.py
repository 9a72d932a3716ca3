"""Weights learnt on a part of the samples, to start from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from references import result_of

from multikernel.gram import DenseStack, LowRankStack
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import LpBall
from multikernel.solvers.common import newton as common
from multikernel.solvers.common.newton import newton
from multikernel.svm import CSVM, LabelSVMs, NuSVM


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    signs = np.where(rng.random(600) < 0.4, 1.0, -1.0)
    features = [rng.normal(size=(600, 3)) + shift * signs[:, None] for shift in (0.8, 0.4, 0.0, 0.0)]
    return features, signs


def stack_of(features):
    return DenseStack(np.stack([np.exp(-((X[:, None] - X) ** 2).sum(axis=-1) / 6.0) for X in features]))


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_start_from_a_sample_saves_iterations_and_changes_no_optimum(data, p, monkeypatch):
    features, signs = data
    results = []
    for large in (10**9, 500):
        monkeypatch.setattr(common, "LARGE", large)
        monkeypatch.setattr(common, "FEWEST", 400)
        problem = MinMaxProblem(stack_of(features), CSVM(signs, 10.0), LpBall(p), memory=1 << 30)
        results.append(result_of(newton, problem, 1e-5))
    plain, sampled = results
    assert plain.converged
    assert sampled.converged
    assert_allclose(plain.certificate.primal, sampled.certificate.primal, rtol=2e-5)
    assert sampled.history[0]["gap"] < 0.5 * plain.history[0]["gap"]
    assert sampled.n_iter <= plain.n_iter


@pytest.mark.parametrize("inner", [CSVM, NuSVM])
def test_a_sample_of_an_svm_stands_for_each_class(data, inner):
    _, signs = data
    svm = inner(signs, 0.3, sample_weight=np.linspace(0.5, 1.5, len(signs)))
    part = svm.sample(np.arange(0, 600, 3))
    for sign in (-1.0, 1.0):
        assert_allclose(part.upper[part.signs == sign].sum(), svm.upper[signs == sign].sum())
    assert len(part.start()) == 200
    assert svm.n_samples == 600


def test_too_small_a_class_leaves_nothing_to_start_from(data):
    features, signs = data
    rare = np.where(np.arange(600) < 30, 1.0, -1.0)
    labels = LabelSVMs(np.column_stack([signs, rare]))
    assert labels.sample(np.arange(300, 600)) is None
    assert labels.sample(np.arange(0, 300)).signs.shape == (300, 2)
    problem = MinMaxProblem(stack_of(features), CSVM(rare), LpBall(1.0), memory=1 << 30)
    assert problem.sample(np.arange(300, 600)) is None


def test_a_sample_that_does_not_fit_in_memory_is_not_made(data):
    features, signs = data
    rows = np.arange(200)
    small = MinMaxProblem(stack_of(features), CSVM(signs), LpBall(1.0), memory=1 << 20)
    assert small.sample(rows) is None
    explicit = MinMaxProblem(LowRankStack(features), CSVM(signs), LpBall(1.0), memory=1 << 10)
    assert explicit.sample(rows).stack.shape == (200, 200, 4)
