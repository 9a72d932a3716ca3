"""Courses against passes, and the verdicts on SVRG that follow from them."""

import math

import numpy as np
import pytest
from multikernel_experiments.findings.passes import at, course, decades, flattening, overtakes, passes_to
from multikernel_experiments.findings.rates import complexity_table, costs, flatten, grows_like_log
from multikernel_experiments.protocol import FAILS, HOLDS, UNDECIDED
from multikernel_experiments.protocols import svrg_rate, svrg_scaling
from multikernel_experiments.results import Results
from multikernel_experiments.standins import StandIns
from numpy.testing import assert_allclose

PASSES = np.arange(1.0, 121.0)


def record(objectives, **counted):
    """A cell with the course of its objective; the optimum is 1."""
    counted = {"passes": PASSES, **counted}
    rows = [
        {"objective": value, "relative_gap": value - 1.0, "time": 0.0, **{k: v[i] for k, v in counted.items()}}
        for i, value in enumerate(objectives)
    ]
    return {"history": rows, "objectives": [1.0], "gaps": [0.0], "scores": [1.0], "weights": [], "notes": []}


def rates(svrg, obscure, printed):
    results = Results(svrg_rate.PROTOCOL)
    for setting in svrg_rate.PROTOCOL.settings:
        for key in svrg_rate.LINES:
            values = {**dict.fromkeys(("obscure", "obscure-printed", "ufo"), obscure), "printed": printed}.get(
                key, svrg
            )
            results.cells[setting, 0, key] = record(1.0 + values)
    return {v.claim: v.verdict for v in svrg_rate.PROTOCOL.verdicts(results)}


def test_a_straight_line_is_linear_and_overtakes_what_flattens():
    verdicts = rates(10.0 ** (-PASSES / 8), 1.0 / PASSES, 10.0 ** (-PASSES / 30))
    assert set(verdicts.values()) == {HOLDS}
    assert len(verdicts) == 5


def test_what_flattens_is_not_linear():
    verdicts = rates(1.0 / PASSES, 10.0 ** (-PASSES / 8), 1.0 / PASSES)
    assert [verdict for claim, verdict in verdicts.items() if "printed constants" not in claim] == [FAILS] * 4


def test_where_nothing_was_judged_early_flattening_is_undecided():
    results = Results(svrg_rate.PROTOCOL)
    for setting in svrg_rate.PROTOCOL.settings:
        for key in svrg_rate.LINES:
            results.cells[setting, 0, key] = record(1.0 + 1.0 / PASSES, passes=PASSES + 15)
    assert flatten(results, svrg_rate.LINES, ["ufo"], svrg_rate.BUDGETS)[0] == UNDECIDED


def test_the_cost_of_an_error_is_the_passes_until_it_is_reached():
    results = Results(svrg_rate.PROTOCOL)
    for setting in svrg_rate.PROTOCOL.settings:
        for key in svrg_rate.LINES:
            results.cells[setting, 0, key] = record(1.0 + 1.0 / PASSES)
    found = costs(results, svrg_rate.LINES, "ufo", "mfeat", (0.101, 0.0101, 1e-3))
    assert found == [(10, 0.0), (100, 0.0), (math.inf, math.inf)]
    ((_, (heads, rows)),) = complexity_table(results, svrg_rate.LINES, svrg_rate.ROWS, svrg_rate.ERRORS)
    assert rows[0][0] == "Level MKL, p = 1"
    assert all(len(row) == len(heads) for row in rows)


def test_an_error_beyond_the_end_of_a_run_is_not_judged():
    results, lines = Results(svrg_rate.PROTOCOL), svrg_rate.LINES
    for setting in svrg_rate.PROTOCOL.settings:
        for key in lines:
            results.cells[setting, 0, key] = record(1.0 + 10.0 ** (-PASSES / 8))
        results.cells[setting, 0, "printed"] = record(1.0 + 10.0 ** (-PASSES[:20] / 8))
    verdict, text = grows_like_log(results, lines, "printed", svrg_rate.ERRORS)
    assert verdict == HOLDS
    assert "mfeat: 9, 17, never" in text
    assert grows_like_log(results, lines, "printed", (1e-1, 1e-4))[0] == UNDECIDED


def test_a_course_is_the_best_so_far_above_the_bound_that_another_entry_proves():
    results = Results(svrg_rate.PROTOCOL)
    results.cells["mfeat", 0, "svrg"] = record(np.array([3.0, 2.0, 2.5]))
    results.cells["mfeat", 0, "auto"] = {**record(np.array([1.0])), "objectives": [1.25], "gaps": [0.2]}
    passes, far = course(results, "svrg", "mfeat", "auto")
    assert passes == [1.0, 2.0, 3.0]
    assert_allclose(far, [2.0, 1.0, 1.0])
    assert course(results, "lbfgs", "mfeat", "auto") == ([], [])


def test_measures_of_a_course():
    line = 10.0 ** -np.arange(10.0)
    assert math.isnan(at([5.0], [1.0], 4.0))
    assert_allclose(decades(np.arange(10.0), line, (1e-1, 1e-7)), (1.0, 1.0))
    slow = decades(PASSES, 1.0 / PASSES, (1.0, 1e-2))
    assert_allclose(slow, (9.0, 90.0))
    assert_allclose(flattening(np.arange(10.0), line, (2, 4, 8)), (10.0, 10.0))
    worse, better = ([1, 2, 3], [0.5, 0.4, 0.3]), ([1, 2, 3], [0.9, 0.39, 0.2])
    assert overtakes(better, worse, 1e-6, 100) == 2
    assert overtakes(worse, better, 1e-6, 100) == math.inf
    assert overtakes(([1, 5], [0.9, 1e-9]), ([1, 2], [0.5, 1e-8]), 1e-6, 100) == math.inf


@pytest.mark.parametrize(("power", "left", "verdict"), [(0.2, 1e-4, HOLDS), (1.5, 0.1, FAILS)])
def test_verdicts_on_the_theorem_read_steps_and_errors_apart(power, left, verdict):
    results = Results(svrg_scaling.PROTOCOL)
    optimum = 0.1
    for setting in svrg_scaling.PROTOCOL.settings:
        size = float(setting.split()[0]) if "kernels" in setting else 1.0
        for entry in svrg_scaling.PROTOCOL.entries:
            counts = np.array([size**power, 2 * size**power])
            found = record(np.array([1.1, 1.00005]), passes=counts, block_passes=counts, epoch=np.array([1, 2]))
            if entry.key.startswith("printed"):  # the alpha that is made at the end is not judged
                found["history"][-1]["objective"] = optimum + left * (math.log(2.0) - optimum)
                found["history"].append({"objective": optimum, "time": 0.0})
            results.cells[setting, 0, entry.key] = {**found, "objectives": [optimum]}
    error, steps, by_samples = svrg_scaling.PROTOCOL.verdicts(results)
    assert error.verdict == verdict
    assert steps.verdict == verdict
    assert by_samples.verdict == HOLDS
    assert math.isinf(passes_to(results, "svrg-2", "8 kernels", 1e-9))


def test_kernels_of_fewer_are_among_those_of_more_and_sum_to_the_same_size():
    archives = StandIns(size=6)
    few = svrg_scaling.task(archives, "8 kernels", 0, True).training
    many = svrg_scaling.task(archives, "16 kernels", 0, True).training
    assert_allclose(many.take(kernels=range(8)).to_array(), few.to_array(), rtol=1e-5)
    for task in (svrg_scaling.task(archives, f"{F} kernels, unit sum", 0, True) for F in (8, 16)):
        K = task.training.to_array().astype(float)
        variance = np.trace(K, axis1=1, axis2=2) / len(K[0]) - K.mean(axis=(1, 2))
        assert_allclose(variance.sum(), 1.0, rtol=1e-3)
        assert task.testing.shape[1:] == task.training.shape[1:]
