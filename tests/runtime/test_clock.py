"""The clock of a fit: limits nest, threads inherit them, and every phase of every estimator keeps to them."""

import contextlib
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_regressor
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from multikernel import (
    BestKernelClassifier,
    CGBoostClassifier,
    CSKLClassifier,
    CSKLClassifierCV,
    GMKLClassifier,
    KernelAverageClassifier,
    LPBetaClassifier,
    MKFDAClassifier,
    MKFDAClassifierCV,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    MultilabelMKLClassifier,
    ObscureClassifier,
    SVRGMKLClassifier,
    SVRGMKLRegressor,
    UFOMKLClassifier,
)
from multikernel.gram import KernelRows, LazyStack, LowRankStack, base
from multikernel.gram.stacks import _seconds_per_row
from multikernel.kernels import RBF, KernelFamily, Linear, Nystroem, quantities
from multikernel.problems import cutting_planes as masters
from multikernel.problems import multilabel, primal
from multikernel.problems.cgboost import ColumnProblem
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.multilabel import LabelProblem
from multikernel.runtime import clock
from multikernel.runtime.clock import GRACE, OutOfTime, check, grace, late, left, map_threads, time_limit
from multikernel.solvers import lpbeta as lp_beta
from multikernel.svm.binary import CSVM
from multikernel.svm.decomposition import WorkingSet

KERNELS = [Linear(), RBF(bandwidth="0.25*mean"), RBF()]
X, Y = load_digits(n_class=3, return_X_y=True)
X, Y = X[:200], Y[:200]
BINARY = (Y == 1).astype(int)


def test_the_tighter_of_two_limits_counts(fake_clock):
    assert left() == np.inf
    with time_limit(10.0):
        with time_limit(100.0):
            assert left() == 10.0
        with time_limit(4.0):
            assert left() == 4.0
        with time_limit(None):
            fake_clock.time = 10.0
            assert late()
            assert left() == 0.0
            with pytest.raises(OutOfTime):
                check()
    check()


def test_a_limit_can_be_ended_from_elsewhere():
    with time_limit(None) as limit:
        check()
        limit.end()
        assert late()
    assert not late()


def test_what_must_be_done_gets_a_moment_but_not_its_parts(fake_clock):
    with time_limit(10.0):
        with grace():
            assert left() == 10.0  # there is time enough
        fake_clock.time = 20.0
        with grace():
            assert left() == GRACE
            fake_clock.time += 0.8 * GRACE
            with grace():
                assert left() == pytest.approx(0.2 * GRACE)
        assert late()


def test_threads_inherit_the_limit_and_nothing_is_left_at_work(fake_clock):
    begun = []

    def work(k):
        begun.append(k)
        fake_clock.time += 1.0

    with time_limit(3.0), pytest.raises(OutOfTime):
        map_threads(work, [(k,) for k in range(100)], n_threads=2)
    assert 3 <= len(begun) <= 4


@pytest.mark.parametrize("storage", ["lazy", "features"])
def test_a_combined_kernel_is_written_block_by_block_under_the_clock(storage, fake_clock):
    family = KernelFamily.fit([Linear(), Linear(columns=[10, 11])], X)
    stack = LazyStack(family, X, memory=0) if storage == "lazy" else LowRankStack.from_family(family, X)
    room = np.full((200, 200), np.nan)
    with time_limit(0.0), pytest.raises(OutOfTime):
        stack.combine([1.0, 2.0], out=room)
    assert np.isnan(room).all()  # no time went into zeros
    assert_allclose(stack.combine([1.0, 2.0], out=room), X @ X.T + 2.0 * X[:, 10:12] @ X[:, 10:12].T)
    assert not stack.combine([0.0, 0.0], out=room).any()


def test_an_interrupted_svm_leaves_a_feasible_alpha(fake_clock):
    svm, K = CSVM(2.0 * BINARY - 1.0), RBF()(X)
    fake_clock.jump_in(WorkingSet, "smo", call=2)
    with time_limit(1.0), pytest.raises(OutOfTime) as caught:
        svm.solve(K, tol=1e-9)
    alpha = caught.value.reached
    assert svm.violation(alpha) == 0.0
    assert svm.certificate(K @ alpha, alpha).dual > 0.0


def test_a_factorisation_made_of_parts_is_the_whole_one(monkeypatch):
    monkeypatch.setattr(clock, "LARGE", 10)
    monkeypatch.setattr(clock, "PANEL", 7)
    monkeypatch.setattr(primal, "PANEL", 7)
    K = RBF()(X[:60])
    whole = primal.CholeskyFactor(K, 1e-3)
    with time_limit(60.0):
        parts = primal.CholeskyFactor(K, 1e-3)
        np.testing.assert_allclose(parts.inverse_diagonal(), whole.inverse_diagonal(), rtol=1e-9)
        assert clock.cholesky(np.asfortranarray(-K))[1] == 1
    np.testing.assert_allclose(np.tril(parts._factor), np.tril(whole._factor), rtol=1e-9, atol=1e-12)


# -- every estimator, with kernels that are computed where they are read: a block of rows takes a second -------------

ESTIMATORS = {
    "average": KernelAverageClassifier(KERNELS),
    "product": KernelAverageClassifier([RBF(), RBF(bandwidth=10.0)], how="product"),
    "best": BestKernelClassifier(KERNELS, cv=3),
    "mkl": MKLClassifier(KERNELS),
    "mkl-centred": MKLClassifier(KERNELS, normalize=["center", "variance"]),
    "mkl-nu": MKLClassifier(KERNELS, nu=0.3),
    "simplemkl": MKLClassifier(KERNELS, solver="simplemkl"),
    "silp": MKLClassifier(KERNELS, solver="silp"),
    "level": MKLClassifier(KERNELS, solver="level"),
    "smo": MKLClassifier(KERNELS, p=2.0, solver="smo", weights="per-class"),
    "vskl": MKLClassifier(KERNELS, groups=[[0], [1, 2]]),
    "cskl": CSKLClassifier(KERNELS, t=2),
    "cskl-exact": CSKLClassifier(KERNELS, t=2, exact=True),
    "cskl-cv": CSKLClassifierCV(KERNELS, cv=2),
    "gmkl": GMKLClassifier(KERNELS),
    "mkfda": MKFDAClassifier(KERNELS),
    "mkfda-cv": MKFDAClassifierCV(KERNELS, ps=[1.0, 2.0], regs=[1e-3, 1e-2], cv=2),
    "multilabel": MultilabelMKLClassifier(KERNELS),
    "multilabel-sum": MultilabelMKLClassifier(KERNELS, objective="sum"),
    "obscure": ObscureClassifier(KERNELS, random_state=0),
    "pegasos": ObscureClassifier(KERNELS, solver="pegasos", random_state=0),
    "sdca": ObscureClassifier(KERNELS, solver="sdca", random_state=0),
    "ufo": UFOMKLClassifier(KERNELS, random_state=0),
    "svrg": SVRGMKLClassifier(KERNELS, random_state=0),
    "svrg-paper": SVRGMKLClassifier(KERNELS, solver="paper", random_state=0),
    "svr": MKLRegressor(KERNELS),
    "one-class": MKLOneClass(KERNELS),
    "svrg-regression": SVRGMKLRegressor(KERNELS, random_state=0),
    "lp-beta": LPBetaClassifier(KERNELS),
}


@pytest.mark.parametrize("max_time", [10.0, 100.0, 400.0])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_estimator_reads_kernels_when_its_time_is_up(name, max_time, fake_clock, monkeypatch):
    monkeypatch.setattr(base, "BLOCK_BYTES", 100_000)  # twenty rows: a pass takes ten seconds
    fake_clock.jump_in(KernelFamily, "evaluate", seconds=1.0)
    model = ESTIMATORS[name]
    y = X[:, 20] if is_regressor(model) else Y
    budget = "1MB" if name.startswith("mkfda") else "50kB"  # discriminants factorise a matrix
    model = type(model)(**model.get_params(deep=False)).set_params(max_time=max_time, memory=budget, tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(TimeoutError):  # no kernel was done, or no fold: see below
            model.fit(X, y)
    spent = fake_clock.time
    assert spent <= max_time + 4.0
    if max_time == 400.0:
        assert model.predict(X).shape == y.shape


# -- each phase ------------------------------------------------------------------------------------------------------

PHASES = {
    "kernels": (KernelFamily, "evaluate", 1, MKLClassifier(KERNELS)),
    "normalisation": (
        base.GramStack,
        "quadratic_forms",
        1,
        MKLClassifier(KERNELS, normalize="variance", memory="50kB"),
    ),
    "centring": (base.GramStack, "apply", 1, MKLClassifier(KERNELS, normalize="center", memory="50kB")),
    "inner solve": (WorkingSet, "smo", 2, MKLClassifier(KERNELS)),
    "certificate": (MinMaxProblem, "certificate", 1, MKLClassifier(KERNELS)),
    "linear program": (masters, "linprog", 1, MKLClassifier(KERNELS, solver="silp")),
    "cone program": (masters, "solve_cone_program", 1, MKLClassifier(KERNELS, solver="level")),
    "linear program of margins": (lp_beta, "_restricted", 1, LPBetaClassifier(KERNELS)),
    "columns": (ColumnProblem, "master", 1, CGBoostClassifier(KERNELS)),
    "factorisation": (primal, "cholesky", 2, MKFDAClassifier(KERNELS)),
    "epochs": (KernelRows, "load", 3, ObscureClassifier(KERNELS, memory="50kB", random_state=0)),
    "labels": (LabelProblem, "solve_labels", 1, MultilabelMKLClassifier(KERNELS)),
    "last solve": (multilabel, "_solved_again", 1, MultilabelMKLClassifier(KERNELS, tol=0.1)),
    "svrg": (base.GramStack, "combine", 3, SVRGMKLClassifier(KERNELS, memory="50kB", random_state=0)),
}


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_ends_with_the_time_and_leaves_a_model(phase, fake_clock):
    owner, name, call, model = PHASES[phase]
    fake_clock.jump_in(owner, name, call=call)
    with pytest.warns(ConvergenceWarning, match="max_time was reached") if phase != "last solve" else _anything():
        model.set_params(max_time=60.0).fit(X, Y)
    assert fake_clock.time >= 1e6
    assert model.predict(X).shape == Y.shape
    assert np.isfinite(model.decision_function(X)).all()


def _anything():
    return warnings.catch_warnings()


@pytest.mark.parametrize("where", [(quantities, "square_windows"), (Nystroem, "_map")])
def test_without_kernels_there_is_no_model_and_an_error_says_so(where, fake_clock):
    fake_clock.jump_in(*where, call=1)
    with pytest.raises(TimeoutError, match=r"MKLClassifier had no model yet when max_time=60 s ran out.*Nystroem"):
        MKLClassifier([Nystroem(rank=20, kernel=RBF(bandwidth="median")), Linear()], max_time=60.0).fit(X, Y)


def test_a_first_svm_that_is_cut_short_is_better_than_nothing(fake_clock):
    fake_clock.jump_in(WorkingSet, "smo", call=2)
    with pytest.warns(ConvergenceWarning, match="max_time was reached"):
        model = KernelAverageClassifier([RBF()], C=10.0, tol=1e-9, max_time=60.0).fit(X, BINARY)
    assert model.score(X, BINARY) > 0.9


def test_limits_of_others_end_a_fit_without_a_model(fake_clock):
    iris_X, iris_y = load_iris(return_X_y=True)
    fake_clock.jump_in(WorkingSet, "smo", call=2)
    with time_limit(60.0), pytest.raises(OutOfTime):
        MKLClassifier(KERNELS).fit(iris_X, iris_y)


def test_a_search_that_is_cut_short_takes_the_best_so_far(fake_clock):
    fake_clock.jump_in(MKFDAClassifierCV, "_fold", call=3, seconds=90.0)
    grid = MKFDAClassifierCV(KERNELS, ps=[1.0, 2.0], regs=[1e-3, 1e-2], cv=4, max_time=100.0)
    with pytest.warns(ConvergenceWarning, match="finished only 8 of 16 grid points: max_time was nearly used up"):
        grid.fit(X, Y)
    assert grid.split_scores_.shape == (2, 2, 2)
    assert grid.score(X, Y) > 0.9


def test_folds_that_are_cut_short_do_not_count(fake_clock):
    fake_clock.jump_in(CSKLClassifier, "_validate", call=3, seconds=90.0)  # in the third fold
    model = CSKLClassifierCV(KERNELS, cv=3, max_time=100.0)
    with pytest.warns(ConvergenceWarning, match="finished only 2 of 3 folds: max_time was nearly used up"):
        model.fit(X, Y)
    assert_array_equal(model.ts_, [1.0, 2.0, 3.0])
    assert model.split_scores_.shape == (2, 3)


# -- what a fit will take ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("per_row", "parameters", "found"),
    [
        (
            0.5,
            {"memory": "50kB"},
            "25 min, more than ten minutes: 200 samples and 2 kernels, computed when they are read",
        ),
        (0.5, {"memory": "50kB", "max_time": 900.0}, "25 min, more than ten minutes"),
        (0.1, {"memory": "50kB", "max_time": 60.0}, "5 min, more than the 60 s left"),
        (5.0, {}, "67 min, more than ten minutes: 200 samples and 2 kernels, in memory"),
        (0.1, {"memory": "50kB"}, None),
        (5.0, {"kernels": [Nystroem(kernel=RBF(), rank=20), Linear()]}, None),
    ],
    ids=["lazy", "late", "budget", "dense", "soon", "features"],
)
def test_a_fit_that_takes_too_long_says_so_before_it_starts(per_row, parameters, found, fake_clock, monkeypatch):
    monkeypatch.setattr("multikernel.gram.stacks.MANY", 200)
    monkeypatch.setattr("multikernel.gram.stacks._seconds_per_row", lambda stack: per_row)
    model = MKLClassifier(**{"kernels": [RBF(), RBF(bandwidth="4*mean")], **parameters})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, BINARY)
    told = [str(warning.message) for warning in caught if "this fit may take" in str(warning.message)]
    assert len(told) == (found is not None)
    if found is not None:
        assert found in told[0]
        assert "Nystroem" in told[0]


def test_the_speed_of_kernels_is_that_of_some_rows():
    stack = LazyStack(KernelFamily.fit([RBF()], X), X, memory=0)
    assert 0.0 < _seconds_per_row(stack) < 1.0
