"""Experiments with tables of labels: the score, methods label by label, protocols on stand-ins."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from multikernel_experiments import Entry, Protocol, Task, all_protocols, reproduce
from multikernel_experiments.findings.drawing import Picture
from multikernel_experiments.findings.lines import alike_at_the_end, ends_are_worst, weights_against_time
from multikernel_experiments.findings.sizes import time_by_labels
from multikernel_experiments.labels import PerLabel, PerLabelEntry, mean_average_precision, signs_of_classes
from multikernel_experiments.protocol import FAILS, HOLDS, IN_PART, UNDECIDED, along
from multikernel_experiments.protocols import multilabel_sensitivity
from multikernel_experiments.results import Results
from multikernel_experiments.run import open_archives
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import average_precision_score

from multikernel import KernelAverageClassifier, MKLClassifier
from multikernel.gram import DenseStack

KEYS = ("multilabel", "multilabel-labels", "multilabel-sensitivity")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4, 60, 3))
    K = np.exp(-((Z[:, :, None] - Z[:, None]) ** 2).sum(-1) / 6)
    Y = np.where(Z[:3, :, 0].T + 0.3 * rng.normal(size=(60, 3)) > 0, 1, -1)
    Y[rng.uniform(size=Y.shape) < 0.1] = 0
    names = ["a one", "a two", "b one", "b two"]
    return (
        DenseStack(K, names).take(np.arange(40), np.arange(40)),
        DenseStack(K, names).take(np.arange(40, 60), np.arange(40)),
        Y[:40],
        Y[40:],
    )


class Fixed:
    """A model with given scores."""

    def __init__(self, scores):
        self.scores = scores

    def decision_function(self, stack):
        return self.scores


def test_the_score_leaves_out_unknown_entries_and_labels_of_one_sign():
    Y = np.array([[1, 1, -1], [-1, 1, 0], [1, 1, 0], [0, 1, 1], [-1, 1, -1]])
    scores = np.random.default_rng(0).normal(size=Y.shape)
    known = Y != 0
    expected = [average_precision_score(Y[known[:, k], k] > 0, scores[known[:, k], k]) for k in (0, 2)]
    assert_allclose(mean_average_precision(Fixed(scores), None, Y), np.mean(expected))
    assert np.isnan(mean_average_precision(Fixed(scores), None, np.ones((5, 3))))


def test_label_by_label_is_one_estimator_a_label_on_what_is_known(data):
    training, testing, Y, _ = data
    found = PerLabel("precomputed", "mkl", C=2.0, tol=1e-6).fit(training, Y)
    for k in range(3):
        known = np.flatnonzero(Y[:, k])
        assert len(known) < 40
        single = MKLClassifier("precomputed", C=2.0, tol=1e-6).fit(training.take(known, known), Y[known, k])
        assert_allclose(found.decision_function(testing)[:, k], single.decision_function(testing.take(columns=known)))
        assert_allclose(found.weights_[k], single.weights_ / single.weights_.sum())
        assert_allclose(found.objective_[k], single.objective_)
    assert_array_equal(found.predict(testing), np.sign(found.decision_function(testing)))


def test_the_average_is_made_once_and_groups_are_descriptors(data):
    training, testing, Y, _ = data
    found = PerLabel("precomputed", "average", C=2.0, tol=1e-6).fit(training, Y)
    known = np.flatnonzero(Y[:, 1])
    single = KernelAverageClassifier("precomputed", C=2.0, tol=1e-6).fit(training.take(known, known), Y[known, 1])
    expected = single.decision_function(testing.take(columns=known))
    assert_allclose(found.decision_function(testing)[:, 1], expected, atol=1e-4)
    grouped = PerLabel("precomputed", "mkl", C=2.0, groups="descriptor").fit(training, Y[:, :1])
    known = np.flatnonzero(Y[:, 0])
    single = MKLClassifier("precomputed", C=2.0, groups=[[0, 1], [2, 3]]).fit(
        training.take(known, known), Y[known, 0]
    )
    assert_allclose(grouped.objective_[0], single.objective_)


def test_an_entry_label_by_label_keeps_its_parameters_and_grid():
    entry = PerLabelEntry("x", "mkl", "X", {"solver": "simplemkl"}, {"C": (1.0, 10.0, 100.0)}).thinned()
    method = entry.registered()
    assert method.estimator is PerLabel
    assert method.params["method"] == "mkl"
    assert method.make("precomputed", C=3.0).params == {"solver": "simplemkl", "C": 3.0}
    assert list(method.grid["C"]) == [1.0, 100.0]


@pytest.mark.parametrize("name", KEYS)
def test_tasks_of_protocols_have_labels_of_both_signs_in_every_part(name):
    protocol, archives = all_protocols()[name], open_archives(quick=True)
    for setting in protocol.quickened().settings:
        task = protocol.task(archives, setting, 0, True)
        assert len(task.training) == len(task.y_train)
        assert len(task.testing) == len(task.y_test)
        parts = [task.y_train, task.y_test, *(task.y_train[rows] for fold in task.folds for rows in fold)]
        for part in parts:
            assert set(np.unique(part)) <= {-1.0, 0.0, 1.0}
        assert ((parts[0] > 0).any(axis=0) & (parts[0] < 0).any(axis=0)).all()
    left_out = {s for entry in protocol.entries for s in entry.leaves_out}
    assert left_out <= set(protocol.settings)


def test_classes_become_signs():
    signs = signs_of_classes(np.array([2, 0, 1]), [0, 1])
    assert_array_equal(signs, [[-1, -1], [1, -1], [-1, 1]])


def test_a_run_on_tables_leaves_out_what_it_should_and_keeps_weights_along_the_way(data, tmp_path):
    training, testing, Y, Z = data
    protocol = Protocol(
        name="tables",
        title="Tables",
        about="A test.",
        source="none",
        files=(),
        entries=(
            PerLabelEntry("average", "average", "average"),
            Entry("max", "ml-mkl", "worst label", {"tol": 1e-2}, leaves_out=("b",)),
            *along(Entry("line", "ml-mkl", "worst label", {"tol": 1e-6}, leaves_out=("b",)), (1, 20)),
        ),
        task=lambda archives, setting, split, quick: Task(training, testing, Y, Z, []),
        settings=("a", "b"),
        n_splits=1,
        score=mean_average_precision,
        metric="mean average precision",
        figures=(Picture("weights", weights_against_time, keys=["line"], setting="a"),),
    )
    results = reproduce(protocol, tmp_path, data=tmp_path)
    line = {("a", 0, "line@1"), ("a", 0, "line@20")}
    assert set(results.cells) == {("a", 0, "average"), ("b", 0, "average"), ("a", 0, "max"), *line}
    assert results.total == 5
    assert all(record["error"] is None for record in results.cells.values())
    assert all(0.0 <= record["scores"][0] <= 1.0 for record in results.cells.values())
    for place in line:
        assert_allclose(sum(results.cells[place]["weights"][0]), 1.0)
    svms = [results.cells[place]["n_svms"] for place in sorted(line)]
    assert 0 < svms[0] < svms[1]
    assert (tmp_path / "weights.png").stat().st_size > 10_000
    assert "| b |" in (tmp_path / "table.md").read_text()


def made_up(name, seconds, scores, gap=1e-3):
    """Results of a protocol with given times and scores by key, settings in order."""
    protocol = all_protocols()[name]
    results = Results(protocol)
    for entry in protocol.entries:
        key = entry.line or entry.key
        for setting, time, score in zip(protocol.settings, seconds[key], scores[key]):
            svms = 100 * time * entry.params.get("max_iter", 1)
            record = {"scores": [score], "fit_seconds": [time], "gaps": [gap], "kernel_names": ["a"], "error": None}
            for split in range(protocol.n_splits):
                results.cells[setting, split, entry.key] = {**record, "n_svms": svms}
    return results


def test_verdicts_on_time_against_labels_read_slopes_ratios_and_scores():
    counts = np.array([2, 8, 32, 102])
    seconds = {"max": counts**0.5, "max-vr": counts**0.6, "sum": counts**0.9, "sa": counts**0.5}
    seconds["sum-paper"] = 20.0 * counts
    scores = {key: np.full(4, 0.6) for key in seconds} | {"sa": np.full(4, 0.595)}
    grows, accurate, faster = all_protocols()["multilabel-labels"].verdicts(
        made_up("multilabel-labels", seconds, scores)
    )
    assert (grows.verdict, faster.verdict, accurate.verdict) == (HOLDS, HOLDS, HOLDS)
    assert "sa 0.50" in grows.evidence
    assert "sa-printed" in grows.judged
    assert faster.source == "this library"  # the factor is ours
    assert "sum-paper 202.0" in faster.evidence
    assert "-0.5 points" in accurate.evidence
    slow = {**seconds, "max": 10.0 * counts, "sa": 10.0 * counts}
    worse = {**scores, "sa": np.full(4, 0.5)}
    found = all_protocols()["multilabel-labels"].verdicts(made_up("multilabel-labels", slow, worse))
    assert [verdict.verdict for verdict in found] == [FAILS, FAILS, FAILS]


def test_verdicts_on_one_kernel_for_many_labels_read_scores_and_times_of_each_setting():
    keys = [entry.line or entry.key for entry in all_protocols()["multilabel"].entries]
    scores = {key: np.full(4, 0.6) for key in keys} | {"sum-paper": np.array([0.6, 0.605, 0.595, 0.6])}
    seconds = {key: np.ones(4) for key in keys} | {"line-sa": np.full(4, 0.02), "line-sum": np.full(4, 2.5)}
    alike, faster, accurate = all_protocols()["multilabel"].verdicts(made_up("multilabel", seconds, scores))
    assert (alike.verdict, faster.verdict, accurate.verdict) == (HOLDS, HOLDS, HOLDS)
    assert "VOC 2007, 59.0: 60 against 250 SVMs, 0.02 against 2.50 s" in faster.evidence
    scores["gmkl"], seconds["line-sum"] = np.array([0.6, 0.7, 0.6, 0.6]), np.array([2.0, 0.01, 2.0, 2.0])
    _, faster, accurate = all_protocols()["multilabel"].verdicts(made_up("multilabel", seconds, scores))
    assert (faster.verdict, accurate.verdict) == (IN_PART, IN_PART)
    assert "Caltech, 20 labels: simple +0.0, vskl +0.0, gmkl -10.0, average +0.0; VOC 2007:" in accurate.evidence


def test_figures_show_every_line():
    counts = np.array([2, 8, 32, 102])
    keys = [entry.key for entry in all_protocols()["multilabel-labels"].entries]
    results = made_up("multilabel-labels", dict.fromkeys(keys, counts), dict.fromkeys(keys, np.full(4, 0.5)), gap=0.1)
    figure = Figure()
    time_by_labels(results, figure, dict(zip(results.protocol.settings, counts.tolist())))
    drawn = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert len(drawn) == 2 * len(keys)  # each line, and circles around what is not certified


def sensitive(n_splits):
    """Lines that all rise to 40 %, but δ = 0 and δ = 1, which end a point lower."""
    protocol = replace(multilabel_sensitivity.PROTOCOL, n_splits=n_splits)
    results = Results(protocol)
    for entry in protocol.entries:
        for split in range(n_splits):
            low = 0.01 * (entry.line in ("δ=0", "δ=1"))
            score = 0.4 * entry.params.get("max_iter", 768) / 768 - low + 0.001 * split
            results.cells["all", split, entry.key] = {"scores": [score], "fit_seconds": [1.0]}
    return results


def test_one_seed_is_undecided_and_five_are_judged():
    keys = list(multilabel_sensitivity.DELTAS)
    for claim in multilabel_sensitivity.PROTOCOL.verdicts(sensitive(1)):
        assert claim.verdict == UNDECIDED
        assert "40.0" in claim.evidence
    several = sensitive(5)
    assert alike_at_the_end(several, keys, close=2.0)[0] == HOLDS
    assert alike_at_the_end(several, keys, close=0.5)[0] == FAILS
    assert ends_are_worst(several, keys)[0] == HOLDS
    assert ends_are_worst(several, [keys[1], keys[0], keys[3], keys[2]])[0] == FAILS
    figure = Figure()
    multilabel_sensitivity.PROTOCOL.figures[0](several, figure)
    assert len(figure.axes) == 2
