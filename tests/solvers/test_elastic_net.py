"""Weights from an elastic net: the regulariser by its definition, its two ends, and what it does to twins."""

import cvxpy as cp
import numpy as np
import pytest
from mkl_problems import AWKWARD, make_kernels
from numpy.testing import assert_allclose
from references import conic_value, root

from multikernel import KernelAverageClassifier, MKLClassifier, mkl_path
from multikernel.gram import DenseStack


def conic_optimum(K, signs, C, a):
    """min over w, b of ½ (a (Σ_j ‖w_j‖)² + (1 − a) Σ_j ‖w_j‖²) + C Σ_i hinge, with w_j in the features of K_j."""
    features = [root(kernel) for kernel in K]
    w, b = [cp.Variable(f.shape[1]) for f in features], cp.Variable()
    norms = cp.hstack([cp.norm(part) for part in w])
    scores = sum(f @ part for f, part in zip(features, w)) + b
    penalty = a * cp.square(cp.sum(norms)) + (1.0 - a) * sum(cp.sum_squares(part) for part in w)
    return conic_value(cp.Problem(cp.Minimize(0.5 * penalty + C * cp.sum(cp.pos(1 - cp.multiply(signs, scores))))))


@pytest.mark.parametrize("a", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(2))
def test_the_objective_is_the_optimum_of_the_elastic_net(a, seed):
    K, signs, C = make_kernels(seed=seed)
    model = MKLClassifier("precomputed", C=C, l1_ratio=a, tol=1e-8).fit(DenseStack(K), signs)
    assert model.objective_ == pytest.approx(conic_optimum(K, signs, C, a), rel=1e-6)


@pytest.mark.parametrize("case", AWKWARD)
@pytest.mark.parametrize("solver", ["newton", "silp", "lp"])
def test_every_solver_certifies_awkward_problems(case, solver):
    K, signs, C = make_kernels(**AWKWARD[case])
    tol = 1e-6 if solver == "newton" else 1e-3
    for a in (0.4, 0.999):
        model = MKLClassifier("precomputed", C=C, l1_ratio=a, solver=solver, tol=tol).fit(DenseStack(K), signs)
        assert model.converged_
        assert 0.0 <= model.dual_gap_ <= tol * model.objective_


def test_the_path_leads_from_the_average_to_sparse_weights():
    K, signs, C = make_kernels(n_kernels=8, n=60)
    stack = DenseStack(K)
    path = mkl_path(MKLClassifier("precomputed", C=C, tol=1e-7), stack, signs, l1_ratio=[0.0, 0.01, 0.3, 0.7, 1.0])
    average = KernelAverageClassifier("precomputed", C=8 * C, tol=1e-7).fit(stack, signs)  # of the mean, not the sum
    sparse = MKLClassifier("precomputed", C=C, tol=1e-7).fit(stack, signs)
    assert_allclose(path.weights[0], 1.0)
    assert path.objectives[0] == pytest.approx(average.objective_ / 8, rel=1e-6)
    assert path.objectives[-1] == pytest.approx(sparse.objective_, rel=1e-6)
    assert_allclose(path.weights[-1], sparse.weights_, atol=1e-3)
    assert (np.diff(path.objectives) >= 0.0).all()  # sets shrink
    assert path.n_kernels[0] == 8
    assert (np.diff(path.n_kernels) <= 0).all()


def test_order_does_not_matter_and_twins_share():
    K, signs, C = make_kernels(duplicate=True)
    order = np.array([3, 1, 4, 0, 2])
    model = MKLClassifier("precomputed", C=C, l1_ratio=0.5, tol=1e-9)
    weights = model.fit(DenseStack(K), signs).weights_
    assert weights[0] == pytest.approx(weights[1], abs=1e-5)
    moved = model.fit(DenseStack(np.ascontiguousarray(K[order])), signs).weights_
    assert_allclose(moved, weights[order], atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"l1_ratio": 1.5}, "l1_ratio=1.5 must be above 0"),
        ({"l1_ratio": "half"}, "l1_ratio='half' must be a number"),
        ({"l1_ratio": 0.5, "p": 2.0}, "does not use p"),
        ({"l1_ratio": 0.5, "groups": [[0], [1]]}, "different regularisers"),
        ({"l1_ratio": 0.5, "solver": "smo"}, "not known for elastic-net"),
    ],
)
def test_what_does_not_go_together_is_refused(options, message):
    K, signs, _ = make_kernels(n_kernels=2)
    with pytest.raises(ValueError, match=message):
        MKLClassifier("precomputed", **options).fit(DenseStack(K), signs)
