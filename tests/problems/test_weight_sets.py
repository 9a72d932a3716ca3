"""Weight sets agree with their definitions."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from references import conic_value

from multikernel.problems.weight_sets import CappedSimplex, ElasticNet, LpBall

SETS = [LpBall(1.0), LpBall(1.25), LpBall(2.0), LpBall(3.0), LpBall(1e6), CappedSimplex(1.0), CappedSimplex(2.5)]
SETS += [ElasticNet(1.0), ElasticNet(0.5), ElasticNet(0.05)]
vectors = arrays(float, 5, elements=st.floats(0.0, 3.0).map(lambda x: round(x, 3)))


def constraints(weight_set, g):
    if isinstance(weight_set, CappedSimplex):
        return [g >= 0, g <= 1, cp.sum(g) == weight_set.t]
    if isinstance(weight_set, ElasticNet):
        a, b = weight_set.l1_ratio, 1.0 - weight_set.l1_ratio
        return [g >= 0, cp.sum(g if b == 0.0 else a / b * (cp.inv_pos(1 - b * g) - 1)) <= 1]
    return [g >= 0, cp.norm(g, np.inf if weight_set.is_box else weight_set.p) <= 1]


def violation(weight_set, g):
    low = max(0.0, -g.min())
    if isinstance(weight_set, CappedSimplex):
        return max(low, g.max() - 1.0, abs(g.sum() - weight_set.t))
    if isinstance(weight_set, ElasticNet):
        a = weight_set.l1_ratio
        return max(low, g.max() - 1.0, (a * g / (1.0 - (1.0 - a) * g)).sum() - 1.0)
    norm = g.max() if weight_set.is_box else (g**weight_set.p).sum() ** (1 / weight_set.p)
    return max(low, norm - 1.0)


def best_member(weight_set, q):
    """The member with the largest inner product: the largest entries, or equality in Hölder's inequality."""
    if isinstance(weight_set, CappedSimplex):
        return np.clip(weight_set.t - np.argsort(np.argsort(-q, kind="stable")), 0.0, 1.0)
    if isinstance(weight_set, ElasticNet):
        return best_elastic(weight_set.l1_ratio, q)
    if weight_set.is_box:
        return np.ones(len(q))
    if weight_set.p == 1.0 or not q.any():
        return np.eye(len(q))[np.argmax(q)]
    g = (q / q.max()) ** (1.0 / (weight_set.p - 1.0))
    return g / (g**weight_set.p).sum() ** (1.0 / weight_set.p)


def best_elastic(a, q):
    """Shares whose slopes q a / (a + (1 − a) s)² are one multiplier, by bisection on it."""
    if a == 1.0 or not q.any():
        return np.eye(len(q))[np.argmax(q)]

    def shares(log_multiplier):
        return np.maximum((np.sqrt(q * a) * np.exp(-0.5 * log_multiplier) - a) / (1.0 - a), 0.0)

    low, high = -80.0, 80.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if shares(middle).sum() > 1.0 else (low, middle)
    s = shares(high) / shares(high).sum()
    return s / (a + (1.0 - a) * s)


@pytest.mark.parametrize("weight_set", SETS, ids=str)
@given(q=vectors, other=vectors)
def test_support_is_the_largest_inner_product(weight_set, q, other):
    best = best_member(weight_set, q)
    assert violation(weight_set, best) <= 1e-12
    assert_allclose(weight_set.support(q), best @ q, rtol=1e-12)
    assert weight_set.project(other) @ q <= best @ q + 1e-9


@pytest.mark.parametrize("weight_set", SETS, ids=str)
def test_support_agrees_with_a_conic_solver(weight_set):
    g, q = cp.Variable(5), np.array([0.3, 2.0, 0.0, 1.0, 1.9])
    optimum = conic_value(cp.Problem(cp.Maximize(q @ g), constraints(weight_set, g)))
    assert_allclose(weight_set.support(q), optimum, rtol=1e-6)


@pytest.mark.parametrize("weight_set", SETS, ids=str)
@given(point=arrays(float, 5, elements=st.floats(-2.0, 3.0).map(lambda x: round(x, 3))))
def test_projection_is_the_nearest_point(weight_set, point):
    nearest = weight_set.project(point)
    assert violation(weight_set, nearest) <= 1e-12
    # optimality: no point of the set lies further in the direction of what was cut off
    direction = point - nearest
    shifted = direction - direction.min()  # the support function is for non-negative vectors
    if isinstance(weight_set, CappedSimplex):
        assert weight_set.support(shifted) <= shifted @ nearest + 1e-9
    else:
        assert weight_set.support(np.maximum(direction, 0.0)) <= direction @ nearest + 1e-7


@pytest.mark.parametrize("weight_set", SETS, ids=str)
@given(norms=vectors)
def test_closed_form_weights_minimise_the_norms_over_them(weight_set, norms):
    g = weight_set.weights(norms)
    assert violation(weight_set, g) <= 1e-12
    positive = norms > 0
    if not positive.any():
        return
    # first-order optimality of Σ norms²/g over the set: the gradient's support is attained at g
    descent = np.where(positive, norms**2 / np.where(positive, g, 1.0) ** 2, 0.0)
    assert_allclose(descent @ g, weight_set.support(descent), rtol=1e-6)


@pytest.mark.parametrize("weight_set", SETS, ids=str)
def test_start_is_feasible_and_favours_no_kernel(weight_set):
    start = weight_set.start(6)
    assert violation(weight_set, start) <= 1e-12
    assert np.ptp(start) == 0.0


def test_extreme_exponents_do_not_overflow():
    q = np.array([1e-200, 1e200, 1e150])
    assert LpBall(1.001).support(q) == pytest.approx(1e200)
    assert np.isfinite(LpBall(1.01).weights(np.array([1e-150, 1e150]))).all()


def test_bad_parameters_are_errors():
    with pytest.raises(ValueError, match="at least 1"):
        LpBall(0.5)
    with pytest.raises(ValueError, match="out of 3"):
        CappedSimplex(4.0).start(3)
    with pytest.raises(ValueError, match="must be positive"):
        CappedSimplex(0.0)
    with pytest.raises(ValueError, match="above 0"):
        ElasticNet(0.0)


@given(norms=vectors)
def test_best_weights_of_an_elastic_net_make_it_of_their_norms(norms):
    a = 0.3
    g = ElasticNet(a).weights(norms)
    used = norms > 0.0
    value = (norms[used] ** 2 / g[used]).sum()
    assert_allclose(value, a * norms.sum() ** 2 + (1.0 - a) * (norms**2).sum(), rtol=1e-12)
