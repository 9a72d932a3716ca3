"""Sigmoids and temperatures: the right ones, whatever the scale of scores and weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_softmax
from sklearn.calibration import _sigmoid_calibration

from multikernel.problems.calibration import fit_calibration, log_probabilities

RNG = np.random.default_rng(0)
SCORES = RNG.normal(size=400)
CODES = (RNG.uniform(size=400) < expit(2.0 * SCORES - 1.0)).astype(int)
ONES = np.ones(400)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_sigmoid_is_that_of_platt_at_any_scale(factor):
    slope, constant = fit_calibration(factor * SCORES + 3.0 * factor, CODES, 7.0 * ONES)
    a, b = _sigmoid_calibration(SCORES, CODES)  # scikit-learn has 1 / (1 + exp(a f + b))
    assert_allclose([slope * factor, constant + 3.0 * factor * slope], [-a, -b], rtol=1e-4)


def test_the_temperature_is_the_most_likely_one_and_weights_are_repetitions():
    scores = RNG.normal(size=(300, 4))
    codes = (3.0 * scores + RNG.gumbel(size=(300, 4))).argmax(axis=1)
    times = RNG.integers(1, 4, size=300)
    slope, constant = fit_calibration(np.repeat(scores, times, axis=0), np.repeat(codes, times), np.ones(times.sum()))
    best = minimize(lambda a: -times @ log_softmax(a * scores, axis=1)[np.arange(300), codes], [1.0]).x[0]
    assert constant == 0.0
    assert_allclose(slope, best, rtol=0.02)
    assert_allclose(fit_calibration(scores, codes, times.astype(float))[0], slope, rtol=0.02)


def test_scores_that_separate_mislead_or_say_nothing_give_finite_slopes():
    assert 0.0 < fit_calibration(np.array([-1.0, -1.0, 1.0, 1.0]), np.array([0, 0, 1, 1]), np.ones(4))[0] < 10.0
    assert 0.0 < fit_calibration(np.eye(3)[[0, 1, 2]], np.arange(3), np.ones(3))[0] < 10.0
    assert fit_calibration(-SCORES, CODES, ONES)[0] == 0.0
    slope, constant = fit_calibration(np.full(9, 5.0), np.repeat([0, 1], [6, 3]), np.ones(9))
    assert slope == 0.0
    assert 0.3 < expit(constant) < 0.45
    slope, constant = fit_calibration(np.zeros(8), np.zeros(8, dtype=int), np.ones(8))  # a label that nobody has
    assert_allclose(expit(slope + constant), 1.0 / 10.0, atol=1e-6)
    assert fit_calibration(np.zeros(0), np.zeros(0, dtype=int), np.zeros(0)) == (0.0, 0.0)


def test_logarithms_do_not_underflow():
    assert_allclose(log_probabilities(np.array([-800.0, 0.0])), [[0.0, -800.0], [np.log(0.5)] * 2])
    assert_allclose(log_probabilities(np.array([[0.0, 800.0, 0.0]])), [[-800.0, 0.0, -800.0]])
