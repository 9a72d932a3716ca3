"""Protocols on Caltech-101 and what they read off: stacks, searches, exponents, verdicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from multikernel_experiments import Task
from multikernel_experiments.archives import drawn, from_features
from multikernel_experiments.findings.curves import excess, exponent, first_reach
from multikernel_experiments.findings.epochs import epochs_to_score
from multikernel_experiments.fitting import run_entry
from multikernel_experiments.images import (
    CALTECH,
    CALTECH_LEVELS,
    CALTECH_PYRAMIDS,
    caltech39,
    caltech_split,
    kernels_of,
)
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, Entry
from multikernel_experiments.protocols import caltech, caltech_noise, obscure_kernels, obscure_samples
from multikernel_experiments.results import Results
from multikernel_experiments.searches import candidates_for
from multikernel_experiments.standins import StandIns

from multikernel.compare.tuning import accuracy, choose


@pytest.fixture(scope="module")
def archives():
    return StandIns(size=6)


def test_kernels_from_shared_distances_are_those_of_the_features(archives):
    archive = archives.load(CALTECH)
    train, test = caltech_split(archive, 1, 5)
    shared = caltech39(archives, train, test)
    direct = from_features(*kernels_of(archive, CALTECH_LEVELS, CALTECH_PYRAMIDS), train, test, standardize=False)
    for ours, expected in zip(shared, direct):
        assert list(ours.names) == list(expected.names)
        np.testing.assert_allclose(ours.to_array(), expected.to_array(), atol=2e-5)
    assert shared[0].n_kernels == obscure_kernels.N_KERNELS


def test_a_draw_of_few_kernels_is_part_of_a_draw_of_more(archives):
    names = [set(obscure_kernels.task(archives, k, 2, True).training.names) for k in ("2", "10", "39")]
    assert names[0] < names[1] < names[2]
    assert [len(n) for n in names] == [2, 10, 39]


def test_noise_kernels_are_added_to_the_same_informative_ones(archives):
    without, with_noise = (caltech_noise.task(archives, level, 0, True) for level in ("0", "4"))
    first = without.training.n_kernels
    assert list(with_noise.training.names)[first:] == [f"noise {k}" for k in range(1, 5)]
    np.testing.assert_array_equal(with_noise.training.to_array()[:first], without.training.to_array())
    noise = with_noise.training.to_array()[first:]
    off_diagonal = noise[:, ~np.eye(noise.shape[1], dtype=bool)]
    np.testing.assert_allclose(np.log(off_diagonal).mean(axis=1), -1.0, rtol=0.05)  # mean distance, all alike


def test_samples_of_a_class_are_for_training_or_for_the_test():
    y = np.repeat([3, 5, 9], [4, 10, 30])
    train, test = drawn(y, np.array([3, 5, 9]), 8, 5, 0)
    assert len(np.intersect1d(train, test)) == 0
    assert np.unique(y[train], return_counts=True)[1].tolist() == [3, 8, 8]
    assert np.unique(y[test], return_counts=True)[1].tolist() == [1, 2, 5]


def test_the_search_over_nu_finds_what_separate_fits_find(archives):
    task = caltech.task(archives, "all", 0, True)
    task = Task(task.training.take(kernels=[0, 9, 38]), None, task.y_train, None, task.folds)
    entry = Entry("x", "lp-beta", "LP-β", {"C": 10.0}, {"nu": (0.05, 0.4, 0.9), "cv": (2, 3)})
    method = entry.registered()
    steps = []
    (found,) = candidates_for(method, task, accuracy, lambda: steps.append(1), {})
    tried = [{"nu": nu, "cv": cv} for nu in (0.05, 0.4, 0.9) for cv in (2, 3)]
    expected = choose(method, tried, task.training, task.y_train, task.folds)
    assert found == expected.parameters
    assert len(steps) == 6


def test_a_method_that_cannot_be_fitted_to_few_samples_is_fitted_to_all(archives, monkeypatch):
    from multikernel import KernelAverageClassifier

    task = caltech.task(archives, "all", 0, True)
    fit, seen = KernelAverageClassifier.fit, []

    def choosy(self, X, y, **kwargs):
        seen.append(len(y))
        if len(y) < len(task.y_train):
            raise ValueError("too few")
        return fit(self, X, y, **kwargs)

    monkeypatch.setattr(KernelAverageClassifier, "fit", choosy)
    record = run_entry(caltech.PROTOCOL, Entry("average", "average", "average", {"C": 1.0}), task, lambda: None)
    assert record["error"] is None
    assert len(seen) == 2
    assert seen[0] < seen[1] == len(task.y_train)


def test_exponents_are_exact_on_powers_and_leave_out_what_is_not_there():
    n = np.array([10.0, 30.0, 100.0])
    assert exponent(n, 0.2 * n**1.7) == pytest.approx(1.7)
    assert exponent(n, [1.0, np.inf, 10.0]) == pytest.approx(1.0)
    assert np.isnan(exponent([10.0, 10.0], [1.0, 2.0]))


def test_reaching_a_goal_is_interpolated_on_log_axes():
    epochs = [1, 2, 4, 8]
    assert first_reach(epochs, [1 / e for e in epochs], 1 / 3) == pytest.approx(3.0)
    assert first_reach(epochs, [0.01] * 4, 0.5) == 1.0
    assert first_reach(epochs, [1.0] * 4, 0.5) == np.inf


def converging(rate, final=0.61) -> Results:
    """OBSCURE's objective ``1 + 1/epochs^rate(F)`` above an optimum of 1 that is proved; its errors fall likewise."""
    results = Results(replace(obscure_kernels.PROTOCOL, n_splits=2))
    for setting in obscure_kernels.PROTOCOL.settings:
        for split in range(2):
            for key, epochs in obscure_kernels.BUDGETS.items():
                far = epochs ** -rate(int(setting))
                record = {"scores": [final - 0.6 * far], "objectives": [1.0 + far]}
                results.cells[setting, split, key] = {**record, "fit_seconds": [0.01 * epochs * int(setting)]}
            proof = {"scores": [final], "objectives": [1 / 0.99], "gaps": [0.01], "fit_seconds": [1.0]}
            results.cells[setting, split, "sdca"] = proof
    return results


def test_the_verdict_on_more_kernels_follows_from_epochs_needed():
    faster, slower = converging(lambda F: 0.7 + 0.02 * F), converging(lambda F: 2.0 - 0.02 * F)
    budgets = obscure_kernels.BUDGETS
    assert excess(faster, "e4", "10", 0, "sdca") == pytest.approx(4**-0.9)
    assert epochs_to_score(faster, "10", budgets, 0.61 - 0.6 / 4**0.9) == pytest.approx(4.0)
    assert obscure_kernels.PROTOCOL.verdicts(faster)[0].verdict == HOLDS
    assert obscure_kernels.PROTOCOL.verdicts(slower)[0].verdict == FAILS
    never = converging(lambda F: 0.01)
    assert "39: inf" in obscure_kernels.PROTOCOL.verdicts(never)[0].evidence
    assert obscure_kernels.PROTOCOL.verdicts(never)[-1].verdict == FAILS


@pytest.mark.parametrize(("power", "verdict"), [(1.0, HOLDS), (2.0, FAILS)])
def test_the_verdict_on_linear_time_follows_from_the_exponent(power, verdict):
    results = Results(obscure_samples.PROTOCOL)
    for sizes in obscure_samples.PER_CLASS.values():
        for setting, n in sizes.items():
            for entry in obscure_samples.PROTOCOL.entries:
                record = {"scores": [0.5], "objectives": [1.05], "gaps": [0.0], "fit_seconds": [1e-3 * n**power]}
                results.cells[setting, 0, entry.key] = record
            results.cells[setting, 0, "sdca"] = {**record, "objectives": [1.0]}
    linear, epochs, gains = obscure_samples.PROTOCOL.verdicts(results)
    assert gains.verdict == FAILS  # all take as long here
    assert linear.verdict == verdict
    assert f"{power:.2f}" in linear.evidence
    assert epochs.verdict == HOLDS
    assert "Caltech 5: 5.0" in epochs.evidence


def test_the_verdicts_on_caltech_follow_from_the_scores():
    results = Results(caltech.PROTOCOL)

    def fill(**scores):
        for split in range(3):
            for key, score in scores.items():
                results.cells["all", split, key.replace("_", "-")] = {"scores": [score]}
        return [verdict.verdict for verdict in caltech.PROTOCOL.verdicts(results)]

    good = {
        "average": 0.60,
        "mkl": 0.62,
        "mkl_p": 0.62,
        "sdca": 0.65,
        "mkfda": 0.66,
        "mkl_class": 0.6,
        "lp_beta": 0.64,
    }
    assert fill(**good) == [HOLDS, HOLDS]
    assert fill(**{**good, "sdca": 0.55, "lp_beta": 0.7}) == [FAILS, IN_PART]
