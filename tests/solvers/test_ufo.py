"""UFO-MKL: its steps as printed, its optimum from a conic solver, and kernels that are exactly zero."""

import warnings

import numpy as np
import pytest
from mkl_problems import make_class_kernels
from numpy.testing import assert_allclose
from references import conic_group_norm, conic_hinge, result_of
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from multikernel import UFOMKLClassifier
from multikernel.gram import DenseStack
from multikernel.kernels import RBF
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.solvers.obscure.obscure import ScoreTable
from multikernel.solvers.ufo import ufo, ufo_norm


def make_problem(sparsity, n=40, C=10.0):
    """RBF kernels on views, of which two tell the three classes apart."""
    K, y = make_class_kernels(n=n, rest=0.1, linear=False)
    return ObscureProblem(DenseStack(K), MulticlassHinge(y, 3), 1.0 / (C * n), ufo_norm(len(K)), sparsity=sparsity)


@pytest.mark.parametrize("sparsity", [0.0, 0.05, 0.15])
def test_ufo_reaches_the_conic_optimum_with_exact_zeros(sparsity):
    problem = make_problem(sparsity)
    K, loss = problem.stack.to_array(), conic_hinge(problem.loss)
    optimum, norms = conic_group_norm(K, problem.lam, problem.p, 3, loss, sparsity)
    result = result_of(ufo, problem, 1e-9, None, max_iter=3000, random_state=0)
    assert result.certificate.dual <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= result.certificate.primal <= 1.02 * optimum
    zero = norms < 1e-4 * norms.max()
    assert (result.weights[zero] == 0.0).all()
    assert zero.any() == (sparsity == 0.15)


def test_steps_are_those_of_the_paper():
    problem = make_problem(0.02, n=15)
    K, y, q, lam = problem.stack.to_array(), problem.loss.labels, problem.q, problem.lam
    order = np.random.default_rng(1).permutation(15).tolist() * 3
    A, w = np.zeros((15, 3)), np.zeros(4)
    for t, i in enumerate(order, start=1):
        scores = sum(d * k[i] @ A for d, k in zip(w, K))
        rival = max((r for r in range(3) if r != y[i]), key=lambda r: scores[r])
        if 1 + scores[rival] - scores[y[i]] > 0:
            A[i, y[i]] += 1.0
            A[i, rival] -= 1.0
        norms = np.sqrt([np.trace(A.T @ k @ A) for k in K])
        v = np.maximum(norms - 0.02 * t, 0.0)
        w = v / (lam * t * norms) * (v / np.sum(v**q) ** (1 / q)) ** (q - 2)
    state = ScoreTable(problem)
    for k in range(3):
        state.averaging(np.array(order[15 * k : 15 * (k + 1)]))
    assert_allclose(state.coef, A)
    assert_allclose(state.weights / (lam * state.steps), w, rtol=1e-9)


def test_the_norm_follows_from_the_number_of_kernels():
    assert ufo_norm(1) == ufo_norm(2) == 2.0
    q = 2 * np.log(10)
    assert_allclose(ufo_norm(10), q / (q - 1))


def test_more_sparsity_leaves_fewer_kernels():
    X, y = load_iris(return_X_y=True)
    kernels = [RBF(columns=[k]) for k in range(4)]
    counts = []
    for a in (0.0, 0.03, 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = UFOMKLClassifier(kernels, C=10.0, a=a, max_iter=100, random_state=0).fit(X, y)
        counts.append(model.n_kernels_)
        assert model.score(X, y) > 0.9
    assert counts[0] == 4
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 4
    with pytest.raises(ValueError, match=r"a=-1.0 must not be negative"):
        UFOMKLClassifier(kernels, a=-1.0).fit(X, y)
    with pytest.raises(ValueError, match=r"p=3.0 must be above 1"):
        UFOMKLClassifier(kernels, p=3.0).fit(X, y)
