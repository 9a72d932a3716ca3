"""The protocol of all methods on many data sets: what is read, what is chosen, what is concluded."""

from __future__ import annotations

import numpy as np
import pytest
from multikernel_experiments.findings.drawing import render
from multikernel_experiments.findings.ranks import critical_difference, score_and_time
from multikernel_experiments.fitting import average_precision
from multikernel_experiments.protocols import grand
from multikernel_experiments.sets import SETS, task_of
from multikernel_experiments.standins import StandIns
from test_experiments_runs import filled

from multikernel import KernelAverageClassifier
from multikernel.compare.tuning import accuracy
from multikernel.estimators import registry
from multikernel.estimators.registry import available

SMALL = StandIns(size=6)


@pytest.mark.parametrize("name", list(SETS))
def test_every_data_set_gives_kernels_of_unit_variance_and_folds_inside_training(name):
    task = task_of(SMALL, SETS[name], 0)
    F, n = task.training.n_kernels, len(task.y_train)
    K = task.training.to_array()
    assert K.shape == (F, n, n)
    assert task.testing.to_array().shape == (F, len(task.y_test), n)
    variance = np.array([k.trace() / n - k.mean() for k in K])
    np.testing.assert_allclose(variance, 1.0, rtol=1e-3)
    ((rows, held_out),) = task.folds
    assert sorted([*rows, *held_out]) == list(range(n))
    assert task.score is (average_precision if name.startswith("VOC07") else accuracy)


def test_splits_differ_and_are_the_same_each_time():
    first, again, other = (task_of(SMALL, SETS["football"], split) for split in (0, 0, 1))
    np.testing.assert_array_equal(first.training.to_array(), again.training.to_array())
    assert not np.array_equal(first.training.to_array(), other.training.to_array())


def test_every_registered_method_takes_part_with_a_grid():
    entries = {entry.key: entry for entry in grand.PROTOCOL.entries}
    assert list(entries) == list(available())
    for name, method in available().items():
        assert set(method.grid) <= {*entries[name].grid, *entries[name].params}


def test_a_method_with_a_grid_over_a_parameter_of_its_own_takes_part(monkeypatch):
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    registry.register("new", title="New", grid={"lam": [0.1, 0.9]})(KernelAverageClassifier)
    (entry,) = [entry for entry in grand.entries() if entry.key == "new"]
    assert entry.grid == {"lam": (0.1, 0.9)}


def scores(better):
    """Scores in which the methods named are ahead of the average everywhere."""
    order = {name: k for k, name in enumerate(available())}
    return lambda setting, split, key: 0.7 + (0.1 if key in better else 0.0) - 0.001 * (order[key] + split)


def test_the_average_is_beaten_only_where_the_test_says_so():
    nothing = grand.PROTOCOL.verdicts(filled(grand.PROTOCOL, scores(()), n_splits=2))
    assert nothing[0].verdict == "holds"
    assert "none" in nothing[0].evidence
    found = grand.PROTOCOL.verdicts(filled(grand.PROTOCOL, scores(("mkl-p2",)), n_splits=2))
    assert found[0].verdict == "does not hold here"
    assert "MKL, p = 2" in found[0].evidence
    sparse = next(verdict for verdict in found if verdict.claim.startswith("Non-sparse"))
    assert sparse.verdict == "holds"
    assert "better on 18, equal on 0, worse on 0 of 18" in sparse.evidence


def test_ranks_are_drawn_where_there_are_enough_and_not_otherwise():
    results = filled(grand.PROTOCOL, scores(("mkl",)), n_splits=1)
    for draw in (critical_difference, score_and_time):
        drawn = render(draw, results)
        assert b"MKL, p = 1" in drawn["svg"]
    results.cells = {place: record for place, record in results.cells.items() if place[0] in ("mfeat", "DNA")}
    assert render(critical_difference, results) is None
