"""Smooth losses against their definitions: finite differences, Fenchel's inequality, the compiled derivative."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from multikernel.problems.losses import (
    HuberLoss,
    LogisticLoss,
    SmoothedHinge,
    SoftmaxLoss,
    SquaredHinge,
    SquaredLoss,
)

RNG = np.random.default_rng(0)
SIGNS = np.where(RNG.normal(size=(12, 3)) > 0, 1.0, -1.0)
CLASSES = np.eye(3)[RNG.integers(3, size=12)]
NUMBERS = RNG.normal(size=(12, 3))
WEIGHT = RNG.uniform(0.5, 2.0, size=12)
LOSSES = [
    LogisticLoss(SIGNS, WEIGHT),
    SquaredHinge(SIGNS, WEIGHT),
    SmoothedHinge(SIGNS, WEIGHT, 0.5),
    SoftmaxLoss(CLASSES, WEIGHT),
    SquaredLoss(NUMBERS, WEIGHT),
    HuberLoss(NUMBERS, WEIGHT, 0.7),
]
SCORES = 1.5 * RNG.normal(size=(12, 3))
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


@every_loss
def test_gradient_is_the_derivative_of_the_value(loss):
    direction = RNG.normal(size=SCORES.shape)
    h = 1e-6
    slope = (loss.value(SCORES + h * direction) - loss.value(SCORES - h * direction)) / (2 * h)
    assert_allclose(np.vdot(loss.gradient(SCORES), direction), slope, rtol=1e-6)


@every_loss
def test_bend_is_the_second_derivative(loss):
    directions = RNG.normal(size=(2, *SCORES.shape))
    h = 1e-6
    bent = [(loss.gradient(SCORES + h * d) - loss.gradient(SCORES - h * d)) / (2 * h) for d in directions]
    assert_allclose(loss.bend(SCORES, directions[0]), bent[0], atol=1e-6)
    assert_allclose(loss.bend(SCORES, directions), bent, atol=1e-6)  # several at once


@every_loss
def test_dual_point_makes_fenchels_inequality_an_equality_and_others_do_not(loss):
    dual = -loss.gradient(SCORES)
    assert_allclose(loss.value(SCORES), loss.dual_value(dual) - np.vdot(dual, SCORES), rtol=1e-12)
    other = -loss.gradient(SCORES + RNG.normal(size=SCORES.shape))
    assert loss.value(SCORES) > loss.dual_value(other) - np.vdot(other, SCORES) + 1e-6


@every_loss
def test_smoothness_bounds_how_fast_the_derivative_changes(loss):
    other = SCORES + RNG.normal(size=SCORES.shape)
    change = np.linalg.norm(loss.derivative(other) - loss.derivative(SCORES), axis=1)
    assert (change <= loss.smoothness * np.linalg.norm(other - SCORES, axis=1) * (1 + 1e-12)).all()


@every_loss
def test_compiled_slopes_are_the_derivative_even_at_huge_scores(loss):
    from multikernel.compiled.svrg import slopes

    out = np.empty(3)
    for scale in (1.0, 1e3):
        expected = loss.derivative(scale * SCORES)
        for i in range(len(SCORES)):
            slopes(loss.code, loss.width, loss.smoothness, loss.targets[i], scale * SCORES[i], out)
            assert_allclose(out, expected[i], atol=1e-12)


@pytest.mark.parametrize(
    "loss", [LOSSES[0], LOSSES[1], LOSSES[2], LOSSES[3], LOSSES[5]], ids=lambda x: type(x).__name__
)
def test_a_point_outside_the_dual_domain_proves_nothing(loss):
    dual = -loss.gradient(SCORES)
    dual[0] = -10.0 * loss.targets[0]
    assert loss.dual_value(dual) == -np.inf


def test_a_sample_of_weight_zero_does_not_count():
    weight = np.r_[0.0, np.ones(11)]
    with_zero, without = LogisticLoss(SIGNS, weight), LogisticLoss(SIGNS[1:])
    assert_allclose(with_zero.value(SCORES), without.value(SCORES[1:]))
    dual = -with_zero.gradient(SCORES)
    assert_allclose(with_zero.dual_value(dual), without.dual_value(dual[1:]))
    with pytest.raises(ValueError, match="all sample weights are zero"):
        LogisticLoss(SIGNS, np.zeros(12))
