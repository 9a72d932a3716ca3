"""Comparisons: fair splits, no look at test samples, and one failure does not lose the rest."""

import json
import math
import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedShuffleSplit

from multikernel import KernelAverageClassifier
from multikernel.compare import Comparison, KernelResult, MethodResult, compare
from multikernel.compare.results import spread
from multikernel.compare.table import cells, parameters, seconds, text_table
from multikernel.compare.trial import can_measure, peak_memory
from multikernel.compare.tuning import balanced_accuracy, roc_auc
from multikernel.datasets import make_views
from multikernel.estimators import registry
from multikernel.io.files import DataError
from multikernel.kernels import RBF, Linear


class Spy(ClassifierMixin, BaseEstimator):
    """Predicts the first class, and remembers which samples it has seen: kernels here have i + 1 on the diagonal."""

    fits: list = []  # noqa: RUF012 (shared on purpose: each comparison makes its own instances)
    action = None

    def __init__(self, kernels=None, C=1.0):
        self.kernels = kernels
        self.C = C

    def fit(self, stack, y):
        if Spy.action is not None:
            Spy.action(self, stack)
        samples = np.round(stack.diagonal()[0]).astype(int) - 1
        Spy.fits.append((self.C, samples))
        self.classes_ = np.unique(y)
        self.weights_ = np.array([1.0, 3.0])[: stack.n_kernels]
        self.n_kernels_ = stack.n_kernels
        return self

    def predict(self, stack):
        # the better C is, the more samples it gets right: those of the first class, or none
        label = self.classes_[0] if self.C == 2.0 else "nothing"
        return np.full(len(stack), label, dtype=object)


@pytest.fixture
def spy(monkeypatch):
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    registry.register("spy", title="Spy", grid={"C": [1.0, 2.0]}, order=0)(Spy)
    monkeypatch.setattr(Spy, "fits", [])
    monkeypatch.setattr(Spy, "action", None)
    return Spy


def marked_kernels(n, n_kernels=2):
    return np.repeat(np.diag(np.arange(1.0, n + 1))[:, :, None], n_kernels, axis=2)


LABELS = np.array(["a", "b"])[np.arange(24) % 2]


@pytest.fixture(scope="module")
def views():
    return make_views(60, 2, 1, n_features=3, separation=3.0, random_state=0)


SETTINGS = {"cv": 2, "inner_cv": 2, "grid": {"C": [0.1, 1.0]}}


@pytest.fixture(scope="module")
def found(views):
    """All methods."""
    return compare(views.X, views.y, views.kernels, command="typed", **SETTINGS)


@pytest.fixture(scope="module")
def again(views):
    """Two of them, one of which draws samples at random."""
    return compare(views.X, views.y, views.kernels, methods=["average", "obscure"], **SETTINGS)


def test_every_registered_method_and_every_kernel_has_a_row(found, views):
    assert [method.name for method in found.methods] == list(registry.available())
    assert [kernel.name for kernel in found.kernels] == ["informative-1", "informative-2", "noise-1"]
    for method in found.methods:
        assert method.error is None
        assert len(method.scores) == len(method.fit_seconds) == len(method.gaps) == len(method.weights) == 2
        assert np.sum(method.confusion) == len(views.y)
        correct = np.trace(method.confusion)
        assert_allclose(correct / len(views.y), np.average(method.scores, weights=found.n_test))
        made = registry.available()[method.name].make(views.kernels)
        assert all(gap <= made.tol for gap in method.gaps)
        assert np.min(method.weights) >= 0.0
        assert (np.sum(method.weights, axis=1) > 0.0).all()
        if method.name in ("average", "best", "mkl"):
            assert_allclose(np.sum(method.weights, axis=1), 1.0)
    assert found.n_train == [30, 30]


def test_informative_kernels_beat_noise(found):
    accuracy = {kernel.name: kernel.score for kernel in found.kernels}
    assert accuracy["informative-1"] > accuracy["noise-1"] + 0.15
    assert found.methods[0].score > 0.85


def test_the_same_seed_gives_the_same_scores(found, again):
    scores = {method.name: method.scores for method in found.methods}
    assert [method.scores for method in again.methods] == [scores["average"], scores["obscure"]]


def test_kernels_alone_score_the_same_whether_a_method_chose_their_parameters_or_not(found, again):
    assert "best" in [method.name for method in found.methods]  # it chooses
    assert [kernel.scores for kernel in again.kernels] == [kernel.scores for kernel in found.kernels]


def test_held_out_accuracy_is_that_of_a_fit_by_hand(views):
    split = StratifiedShuffleSplit(1, test_size=0.4, random_state=3)
    train, test = next(split.split(views.X, views.y))
    model = KernelAverageClassifier(views.kernels, C=2.0).fit(views.X[train], views.y[train])
    expected = model.score(views.X[test], views.y[test])
    result = compare(
        views.X,
        views.y,
        views.kernels,
        methods=["average"],
        test_size=0.4,
        random_state=3,
        grid={"C": [2.0]},
        single_kernels=False,
    )
    assert result.methods[0].scores == [expected]
    assert result.kernels == []
    assert_allclose(result.spread(result.methods[0]), math.sqrt(expected * (1 - expected) / 24))


def test_parameters_are_chosen_without_test_samples(spy):
    result = compare(marked_kernels(24), LABELS, methods=["spy"], cv=3, inner_cv=2, single_kernels=False)
    n_fits = 2 * 2 + 1
    assert len(spy.fits) == 3 * n_fits
    seen = []
    for split in range(3):
        fits = spy.fits[split * n_fits : (split + 1) * n_fits]
        (C, training), inner = fits[-1], fits[:-1]
        assert C == 2.0
        assert len(training) == 16
        test = np.setdiff1d(np.arange(24), training)
        seen.extend(test)
        for _, samples in inner:
            assert not np.intersect1d(samples, test).size
            assert len(samples) == 8
    assert_array_equal(np.sort(seen), np.arange(24))
    assert result.methods[0].parameters == [{"C": 2.0}] * 3
    assert_allclose(result.methods[0].weights, [[0.25, 0.75]] * 3)


def test_values_of_the_caller_replace_the_grid_of_methods_that_have_the_parameter(spy):
    compare(marked_kernels(24), LABELS, methods=["spy"], cv=2, grid={"C": [7.0], "other": [1]}, single_kernels=False)
    assert {C for C, _ in spy.fits} == {7.0}


def test_a_method_that_fails_says_why_and_the_others_go_on(spy):
    def fail(self, stack):
        raise RuntimeError("no luck today")

    spy.action = fail
    result = compare(marked_kernels(24), LABELS, methods=["spy", "average"], cv=2, single_kernels=False)
    broken, average = result.methods
    assert broken.error == "RuntimeError: no luck today"
    assert broken.scores == []
    assert len(average.scores) == 2
    assert result.best() is average
    assert "no luck today" in text_table(result)


@pytest.mark.parametrize(("linear", "why"), [(0.0, "not positive semi-definite"), (-2.0, "negative entries")])
def test_a_method_that_does_not_apply_is_left_out_and_says_why(linear, why):
    points = np.linspace(0.0, 3.0, 24) + linear
    kernels = np.stack([np.outer(points, points), 1.0 + np.outer(points, points) ** 3], axis=-1)
    result = compare(kernels, LABELS, methods=["product", "average"], cv=2, single_kernels=False, importance=False)
    product, average = result.methods
    assert (product.error, product.scores, product.notes) == (None, [], [])
    assert why in product.left_out
    assert "\n" not in product.left_out
    assert len(average.scores) == 2
    plain, grey = text_table(result), text_table(result, grey=True)
    assert plain.splitlines()[-1] == f"Product kernel SVM is left out: {product.left_out}"
    assert grey.splitlines()[-1] == f"\033[90m{plain.splitlines()[-1]}\033[0m"
    assert "failed" not in plain


@pytest.mark.parametrize("kind", [ValueError, DataError])
def test_an_error_about_the_data_is_shown_without_the_name_of_its_class(spy, kind):
    def fail(self, stack):
        raise kind("kernel 2 is all zero")

    spy.action = fail
    result = compare(marked_kernels(24), LABELS, methods=["spy"], cv=2, single_kernels=False)
    assert result.methods[0].error == "kernel 2 is all zero"
    assert text_table(result).endswith("Spy: kernel 2 is all zero")


def test_warnings_are_kept_with_their_method(spy):
    import warnings

    def warn(self, stack):
        warnings.warn(f"gap {0.1 + len(Spy.fits)} is large", UserWarning, stacklevel=1)
        warnings.warn("take care", UserWarning, stacklevel=1)

    spy.action = warn
    result = compare(marked_kernels(24), LABELS, methods=["spy"], cv=2, single_kernels=False)
    assert result.methods[0].notes == ["UserWarning: gap 0.1 is large", "UserWarning: take care"]


def test_an_interrupt_keeps_what_is_finished_and_no_fit_swallows_it(spy, interruptible):
    def interrupt(self, stack):
        if len(Spy.fits) == 6:  # 2 x 2 inner fits and the final one of the first split are done
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                if not self._keep_interrupted:  # as estimators of the library do
                    raise

    spy.action = interrupt
    result = compare(marked_kernels(24), LABELS, methods=["spy"], cv=3, inner_cv=2, single_kernels=False)
    assert result.interrupted
    assert len(result.methods[0].scores) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_counts_every_fit_once(spy):
    steps = []
    compare(
        marked_kernels(24),
        LABELS,
        methods=["spy", "best"],
        cv=2,
        inner_cv=2,
        progress=lambda *step: steps.append(step),
    )
    done, total = [step[1] for step in steps], steps[0][2]
    assert done == list(range(1, total + 1))
    assert {step[2] for step in steps} == {total}


def test_progress_reaches_its_end_when_a_method_fails(spy):
    def fail(self, stack):
        raise RuntimeError

    spy.action = fail
    steps = []
    compare(marked_kernels(24), LABELS, methods=["spy"], cv=2, progress=lambda *step: steps.append(step[1:]))
    assert steps[-1][0] == steps[-1][1]
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)


@pytest.mark.skipif(not can_measure(), reason="peak memory is measured on Linux only")
def test_the_memory_of_a_fit_is_what_it_adds_at_its_peak(spy):
    def allocate(self, stack):
        np.ones(6_000_000)  # 48 MB, given back before the fit ends

    spy.action = allocate
    result = compare(marked_kernels(24), LABELS, methods=["spy"], cv=2, single_kernels=False)
    assert all(47e6 < peak < 60e6 for peak in result.methods[0].peak_bytes)


def test_memory_already_held_does_not_count():
    held = np.ones(6_000_000)
    _, peak = peak_memory(lambda: held.sum())
    assert not peak > 5e6


def test_results_are_json_without_nan(found):
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert json.loads(text)["command"] == "typed"
    empty = Comparison("d", [], [], "p", 1, methods=[MethodResult("m", "M", [0.5], [1.0], [math.nan])])
    assert json.loads(json.dumps(empty.to_dict(), allow_nan=False))["methods"][0]["gaps"] == [None]


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.repeat("a", 24), {}, "all 24 samples belong to class"),
        (np.array(["a"] * 21 + ["b"] * 3), {"cv": 5}, r"'b' has 3 samples \(24 in all\), fewer than the 5 folds"),
        (LABELS, {"cv": 30}, "fewer than the 30 folds"),
        (LABELS, {"cv": 1}, "at least two folds"),
        (LABELS, {"test_size": 1.5}, "not a share between 0 and 1"),
        (LABELS, {"test_size": 0.01}, "too few to hold out 1%"),
        (LABELS, {"methods": ["averge"]}, "no method 'averge'; did you mean 'average'"),
    ],
)
def test_what_cannot_be_compared_is_refused(y, options, message):
    with pytest.raises(DataError, match=message):
        compare(marked_kernels(24), y, **options)


def test_kernels_that_are_not_psd_are_refused_by_name():
    K = marked_kernels(24)
    K[:, :, 1] *= -1
    with pytest.raises(ValueError, match=r"bad.*positive semi-definite"):
        compare(K, LABELS, kernel_names=["good", "bad"])


# -- numbers as text ----------------------------------------------------------------------------------------


def test_spread_is_the_standard_deviation_over_splits_or_the_error_of_a_share():
    assert_allclose(spread([0.8, 0.9, 1.0], [10, 10, 10]), np.std([0.8, 0.9, 1.0], ddof=1))
    assert_allclose(spread([0.75], [48]), math.sqrt(0.75 * 0.25 / 48))
    assert math.isnan(spread([], []))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00012, "0.1 ms"),
        (0.0994, "99 ms"),
        (0.12, "0.12 s"),
        (59.94, "59.9 s"),
        (3725, "62 min 5 s"),
        (math.nan, "–"),
    ],
)
def test_durations_have_a_fitting_unit(value, text):
    assert seconds(value) == text


def test_parameters_show_one_value_or_their_range():
    assert parameters([{"C": 1.0}, {"C": 1.0}]) == "C=1"
    assert parameters([{"C": 10.0}, {"C": 0.1}, {"C": 1.0}]) == "C=0.1…10"
    assert parameters([{}]) == "–"


def test_a_method_that_was_not_reached_has_a_row():
    comparison = Comparison(
        "d", ["a", "b"], ["k"], "p", 1, methods=[MethodResult("m", "M")], kernels=[KernelResult("k")]
    )
    row = cells(comparison, comparison.methods[0])
    assert (row["method"], row["accuracy"]) == ("M", "not run")


# -- scores beside accuracy ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uneven():
    """Three quarters of the samples are of one class, and nothing tells the classes apart."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(80) % 4 == 0, "rare", "usual")
    return rng.normal(size=(80, 3)), y


def test_noise_is_no_better_than_the_most_frequent_class_and_the_result_says_so(uneven):
    X, y = uneven
    found = compare(X, y, [RBF()], methods=["average"], cv=4, grid={"C": [1e-3]}, single_kernels=False)
    assert found.baseline.scores == [0.75] * 4
    assert found.baseline.metrics["balanced_accuracy"] == [0.5] * 4
    assert found.baseline.metrics["roc_auc"] == [0.5] * 4
    assert found.methods[0].scores == [0.75] * 4
    assert any("60 of 80 samples belong to class 'usual', 20 to 'rare'" in remark for remark in found.remarks)
    assert any("no method is better" in remark for remark in found.remarks)
    lines = text_table(found).splitlines()
    assert lines[0].split()[:5] == ["method", "accuracy", "balanced", "accuracy", "AUC"]
    assert lines[1].startswith("Most frequent class  75.0 ± 0.0 %  50.0 %")
    assert found.to_dict()["baseline"]["metrics"]["accuracy"] == [0.75] * 4


def test_scores_are_those_of_scikit_learn(views):
    split = StratifiedShuffleSplit(1, test_size=0.4, random_state=3)
    train, test = next(split.split(views.X, views.y))
    for labels in (views.y, np.array(["a", "b", "c"])[np.arange(60) % 3]):
        model = KernelAverageClassifier(views.kernels).fit(views.X[train], labels[train])
        scores, y = model.decision_function(views.X[test]), labels[test]
        if scores.ndim == 1:
            area = roc_auc_score(y == model.classes_[1], scores)
        else:
            area = roc_auc_score(np.equal.outer(y, model.classes_), scores, average="macro")
        assert roc_auc(model, views.X[test], y) == pytest.approx(area)
        expected = balanced_accuracy_score(y, model.predict(views.X[test]))
        assert balanced_accuracy(model, views.X[test], y) == pytest.approx(expected)


def test_parameters_are_chosen_and_methods_ranked_by_the_score_that_is_asked_for(uneven):
    X, y = uneven
    X = X + 1.5 * (y == "rare")[:, None]
    settings = {"methods": ["average", "best"], "cv": 3, "grid": {"C": [1e-3, 1.0]}, "class_weight": "balanced"}
    found = compare(X, y, [RBF(), Linear()], scoring="balanced_accuracy", **settings)
    for method in found.methods:
        assert method.scores == method.metrics["balanced_accuracy"]
        assert method.score > 0.6
    assert found.kernels[0].scores == found.kernels[0].metrics["balanced_accuracy"]
    assert found.remarks == []
    assert "class weights balanced" in found.protocol
    with pytest.raises(DataError, match="did you mean 'roc_auc'"):
        compare(X, y, [RBF()], scoring="roc_acu", **settings)


def test_splits_can_be_given(views):
    train, test = np.arange(0, 60, 2), np.arange(1, 60, 2)
    settings = {"methods": ["average"], "grid": {"C": [1.0]}, "single_kernels": False}
    found = compare(views.X, views.y, views.kernels, cv=[(train, test)], **settings)
    alone = KernelAverageClassifier(views.kernels, C=1.0).fit(views.X[train], views.y[train])
    assert found.methods[0].scores == [alone.score(views.X[test], views.y[test])]
    assert found.protocol.startswith("1 given split (30 training and 30 test samples)")


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([0, 1, 2, 3], [3, 4], "a split uses 1 samples for both training and testing, first row 3"),
        (
            [0, 1, 2, 99],
            [4, 5],
            "outside these 24 samples: give pairs of arrays of whole numbers from 0 to 23",
        ),
        ([0, 2, 4], [1, 3], "two classes are needed, with two samples each"),
        (np.arange(8), np.arange(0), "no test samples"),
        ([0.5, 1.0], [2, 3], "arrays of whole numbers"),
    ],
)
def test_splits_that_make_no_sense_are_refused(train, test, message):
    with pytest.raises(ValueError, match=message):
        compare(marked_kernels(24), LABELS, cv=[(np.array(train), np.array(test))])


def test_time_and_memory_of_fits_are_limited(views):
    settings = {"methods": ["mkl"], "cv": 2, "grid": {"C": [1.0]}, "single_kernels": False}
    found = compare(views.X, views.y, views.kernels, max_time=1e-9, memory=10_000, **settings)
    assert any("max_time was reached" in note for note in found.methods[0].notes)


def test_holes_are_an_error_unless_they_are_masked():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    X[:, 2:] += y[:, None]
    X[::5, :2] = np.nan
    options = {"methods": ["average"], "importance": False, "kernels": [RBF(columns=[0, 1]), RBF(columns=[2, 3])]}
    with pytest.raises(ValueError, match=r"NaN in 12 of 60 samples.*missing='mask'"):
        compare(X, y, **options)
    assert compare(X, y, missing="mask", **options).methods[0].scores
    X[7] = np.nan
    with pytest.raises(ValueError, match="1 samples have no view at all"):
        compare(X, y, missing="mask", **options)
