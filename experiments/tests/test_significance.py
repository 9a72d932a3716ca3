"""Tests of differences, against SciPy, against published tables, and by simulation of what they promise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from multikernel_experiments.findings.significance import holm, paired_t, ranking, sign_test
from scipy import stats


def test_without_sizes_the_paired_test_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.random(8), rng.random(8)
    assert paired_t(a - b) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)


def test_shared_training_samples_make_a_difference_less_significant():
    differences = [0.01, 0.02, 0.03, 0.02]
    plain = paired_t(differences)
    corrected = paired_t(differences, n_train=90, n_test=10)
    assert plain < corrected < paired_t(differences, n_train=50, n_test=50) < 1
    factor = math.sqrt((1 / 4 + 10 / 90) / (1 / 4))
    statistic = stats.t.isf(plain / 2, 3) / factor
    assert corrected == pytest.approx(2 * stats.t.sf(statistic, 3), rel=1e-9)


def test_nothing_is_claimed_from_one_split_or_from_equal_differences():
    assert math.isnan(paired_t([0.1]))
    assert math.isnan(paired_t([0.1, 0.1, 0.1]))
    assert paired_t([0.0, 0.0, 0.0]) == 1.0


@pytest.mark.parametrize("wins", range(9))
def test_the_sign_test_is_the_binomial_test(wins):
    differences = [1.0] * wins + [-1.0] * (8 - wins) + [0.0, 0.0]
    assert sign_test(differences)[:3] == (wins, 2, 8 - wins)
    assert sign_test(differences)[3] == pytest.approx(stats.binomtest(wins, 8).pvalue, rel=1e-12)


def test_without_data_sets_that_differ_nothing_is_significant():
    assert sign_test([0.0, 0.0]) == (0, 2, 0, 1.0)


def test_holms_correction_is_that_of_its_definition():
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = dict(enumerate(rng.random(5)))
        corrected = holm({str(key): value for key, value in values.items()})
        order = sorted(values, key=lambda key: values[key])
        for k, key in enumerate(order):
            expected = max(min(1.0, (5 - j) * values[other]) for j, other in enumerate(order[: k + 1]))
            assert corrected[str(key)] == pytest.approx(expected)
    mixed = holm({"a": 0.04, "b": math.nan, "c": 0.01})
    assert (mixed["c"], mixed["a"]) == (0.02, 0.04)
    assert math.isnan(mixed["b"])


# critical values of the two-tailed Nemenyi test at 0.05 for 2, 5 and 10 classifiers [Dem06, table 5(a)]
@pytest.mark.parametrize(("k", "value"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_the_published_table(k, value):
    n = 14
    scores = {str(j): np.random.default_rng(j).random(n) for j in range(k)}
    expected = value * math.sqrt(k * (k + 1) / (6 * n))
    assert ranking(scores).critical_difference == pytest.approx(expected, rel=5e-4)


def test_friedmans_test_agrees_with_scipy_where_no_scores_are_equal():
    rng = np.random.default_rng(3)
    table = rng.random((4, 12)) + 0.3 * np.arange(4)[:, None]
    chi2 = stats.friedmanchisquare(*table).statistic
    statistic = 11 * chi2 / (12 * 3 - chi2)
    found = ranking({str(k): row for k, row in enumerate(table)})
    assert found.p == pytest.approx(stats.f.sf(statistic, 3, 3 * 11), rel=1e-9)
    assert sum(found.ranks.values()) == pytest.approx(4 * 5 / 2)
    assert list(found.ranks.values()) == sorted(found.ranks.values())


def test_groups_hold_exactly_the_pairs_that_do_not_differ():
    rng = np.random.default_rng(4)
    table = {str(k): rng.random(20) + 0.25 * k for k in range(7)}
    found = ranking(table)
    together = {frozenset(pair) for group in found.groups() for pair in itertools.combinations(group, 2)}
    close = {
        frozenset(pair)
        for pair in itertools.combinations(found.ranks, 2)
        if abs(found.ranks[pair[0]] - found.ranks[pair[1]]) <= found.critical_difference
    }
    assert together == close
    assert 1 < len(found.groups()) < 7


def test_scores_that_are_missing_cannot_be_ranked():
    with pytest.raises(ValueError, match="finite scores"):
        ranking({"a": [0.1, math.nan], "b": [0.2, 0.3]})
