"""CSKL: the capped simplex by every solver, paths over t, and what users see."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from mkl_problems import AWKWARD, make_kernels
from numpy.testing import assert_allclose
from references import reference
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from multikernel import CSKLClassifier, CSKLClassifierCV, MKLClassifier, cskl_path
from multikernel.gram import DenseStack
from multikernel.kernels import RBF
from multikernel.problems.cskl import CappedProblem
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.weight_sets import CappedSimplex
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.catalogue import SOLVERS as TABLE
from multikernel.solvers.catalogue import find_solver
from multikernel.solvers.cskl.continuation import continued
from multikernel.solvers.mkl.simplemkl import central_weight, reduced_gradient
from multikernel.solvers.printed.cskl import worst_choice
from multikernel.svm import CSVM, NuSVM

SOLVERS = [name for name in TABLE["cskl"] if "printed" not in name]


def solve(K, inner, t, name, tol=5e-7, **options):
    problem = MinMaxProblem(DenseStack(K), inner, CappedSimplex(t), memory=1 << 30)
    monitor = Monitor(problem, tol=tol)
    find_solver("cskl", name).run(problem, monitor, max_iter=1500, **options)
    return problem, monitor.result()


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return X[:200], y[:200], [RBF(columns=[j]) for j in range(10)]


@pytest.mark.parametrize(
    "case", [case for case in AWKWARD if case not in ("one kernel", "more kernels than samples")]
)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_reaches_the_optimum(case, name):
    K, signs, C = make_kernels(**AWKWARD[case])
    for t in (2.0, 3.5, 4.0):
        problem, result = solve(K, CSVM(signs, C), t, name)
        assert result.converged
        assert_allclose(result.weights.sum(), t, rtol=1e-9)
        assert result.weights.min() >= 0.0
        assert result.weights.max() <= 1.0 + 1e-12
        assert problem.inner.violation(result.alpha) <= 1e-12
        reference(CappedSimplex(t), **AWKWARD[case]).proves(result.certificate, 5e-7)


@pytest.mark.parametrize("name", SOLVERS)
def test_nu_svms_reach_the_optimum(name):
    K, signs, _ = make_kernels(n=40)
    _, result = solve(K, NuSVM(signs, 0.4), 2.0, name)
    assert result.converged
    reference(CappedSimplex(2.0), nu=0.4, n=40).proves(result.certificate, 5e-7)


@pytest.mark.parametrize("seed", range(5))
def test_random_problems_are_solved(seed):
    rng = np.random.default_rng(seed)
    F, n, rank, C = rng.integers(3, 12), rng.integers(10, 40), rng.integers(2, 6), 10 ** rng.uniform(-1, 2)
    options = {"n_kernels": int(F), "n": int(n), "rank": int(rank), "C": C, "seed": seed}
    K, signs, C = make_kernels(**options)
    t = float(rng.uniform(1, F))
    _, result = solve(K, CSVM(signs, C), t, "auto")
    reference(CappedSimplex(t), **options).proves(result.certificate, 5e-7)


def test_the_direction_of_the_paper_converges_without_help_though_slowly():
    K, signs, C = make_kernels()
    _, plain = solve(K, CSVM(signs, C), 2.0, "lp-printed", tol=1e-3)
    _, away = solve(K, CSVM(signs, C), 2.0, "lp", tol=1e-3)
    assert plain.converged
    assert away.n_iter < plain.n_iter


def svm_value(K, signs, C, weights):
    """J and its gradient, by scikit-learn's SVM."""
    svm = SVC(kernel="precomputed", C=C, tol=1e-9).fit(np.tensordot(weights, K, axes=1), signs)
    alpha = np.zeros(len(signs))
    alpha[svm.support_] = svm.dual_coef_[0]
    forms = np.array([alpha @ k @ alpha for k in K])
    return np.abs(alpha).sum() - 0.5 * weights @ forms, -0.5 * forms


def reduced_gradient_as_printed(K, signs, C, weights):
    """Algorithms 2 and 3 of [GMSB11], the slips mended: new weights and their J."""
    J, phi = svm_value(K, signs, C, weights)
    mu = int(np.argmin(np.abs(weights - 0.5)))
    D = np.zeros(len(K))
    for m in range(len(K)):
        at_bound = (weights[m] == 0 and phi[m] > phi[mu]) or (weights[m] == 1 and phi[m] < phi[mu])
        if m != mu and not at_bound:
            D[m] = -(phi[m] - phi[mu])
    D[mu] = -D.sum()
    while True:
        down, up = D < 0, D > 0
        steps = np.full(len(K), np.inf)
        steps[down], steps[up] = -weights[down] / D[down], (1 - weights[up]) / D[up]
        nu, longest = int(np.argmin(steps)), steps.min()
        new = np.clip(weights + longest * D, 0.0, 1.0)
        new[nu] = round(new[nu])
        if not svm_value(K, signs, C, new)[0] < J or nu == mu:
            break
        weights, J = new, svm_value(K, signs, C, new)[0]
        D[mu], D[nu] = D[mu] + D[nu], 0.0
    line = minimize_scalar(
        lambda S: svm_value(K, signs, C, weights + S * D)[0], bounds=(0, longest), options={"xatol": 1e-12}
    )
    return weights + line.x * D, line.fun


@pytest.mark.parametrize("t", [1.0, 2.5])
def test_the_printed_algorithm_is_that_of_the_paper_step_by_step(t):
    K, signs, C = make_kernels(n=40)
    _, result = solve(K, CSVM(signs, C), t, "printed", tol=1e-9)
    assert_allclose(result.history[0]["weights"], t / len(K))
    for before, after in pairwise(result.history[:4]):
        weights, value = reduced_gradient_as_printed(K, signs, C, before["weights"])
        assert (1 - 1e-6) * value <= after["objective"] <= (1 + 2e-3) * value  # line searches end before the minimum
        step, expected = after["weights"] - before["weights"], weights - before["weights"]
        assert step @ expected >= 0.995 * np.linalg.norm(step) * np.linalg.norm(expected)


def test_the_printed_stop_ends_where_the_objective_settles_and_proves_nothing():
    K, signs, C = make_kernels(n=40)
    _, loose = solve(K, CSVM(signs, C), 2.0, "printed", tol=1e-2)
    values = [row["objective"] for row in loose.history]
    assert loose.stopped == "settled"
    assert not loose.converged
    assert abs(values[-1] - values[-2]) <= 1e-2 * values[-1]
    assert all(abs(b - a) > 1e-2 * b for a, b in pairwise(values[:-1]))


def test_directions_stay_in_the_set_and_descend():
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights = CappedSimplex(3.0).project(rng.normal(0.4, 0.6, size=7))
        gradient = -rng.uniform(size=7)
        for direction in (
            reduced_gradient(weights, gradient, central_weight(weights, gradient)),
            CappedSimplex(3.0).vertex(-gradient) - worst_choice(weights, gradient),
        ):
            assert abs(direction.sum()) <= 1e-12
            assert direction @ gradient <= 1e-12
            assert (direction[weights <= 0.0] >= -1e-12).all()
            assert (direction[weights >= 1.0] <= 1e-12).all()


def test_t_of_one_is_the_simplex_and_t_of_all_the_sum(cancer):
    X, y, kernels = cancer
    one = CSKLClassifier(kernels, t=1, C=10.0, tol=1e-6).fit(X, y)
    simple = MKLClassifier(kernels, C=10.0, tol=1e-6, solver="simplemkl").fit(X, y)
    assert_allclose(one.objective_, simple.objective_, rtol=2e-6)
    everything = CSKLClassifier(kernels, t=10, C=10.0, tol=1e-6).fit(X, y)
    assert_allclose(everything.weights_, 1.0)
    K = sum(clone(kernel).fit(X)(X) for kernel in kernels)
    svc = SVC(kernel="precomputed", C=10.0, tol=1e-8).fit(K, y)
    alpha = svc.dual_coef_[0]
    value = np.abs(alpha).sum() - 0.5 * alpha @ K[np.ix_(svc.support_, svc.support_)] @ alpha
    assert_allclose(everything.objective_, value, rtol=1e-5)


def test_more_than_t_kernels_have_a_weight_unless_exact(cancer):
    X, y, kernels = cancer
    relaxed = CSKLClassifier(kernels, t=2, C=10.0).fit(X, y)
    exact = CSKLClassifier(kernels, t=2, C=10.0, exact=True).fit(X, y)
    assert relaxed.n_kernels_ > 2
    assert exact.n_kernels_ == 2
    assert set(exact.weights_) == {0.0, 1.0}
    assert exact.objective_ >= relaxed.objective_ - relaxed.dual_gap_


def test_nu_bounds_margin_errors_and_support_vectors(cancer):
    X, y, kernels = cancer
    for nu in (0.1, 0.3):
        model = CSKLClassifier(kernels, t=3, nu=nu, tol=1e-8).fit(X, y)
        margins = np.where(y == model.classes_[1], 1.0, -1.0) * model.decision_function(X)
        coefficients = np.zeros(len(y))
        coefficients[model.support_] = np.abs(model.dual_coef_[0]) * len(y)
        free = (coefficients > 1e-6) & (coefficients < 1 - 1e-6)
        margin = np.median(margins[free])  # free support vectors lie on the margin
        assert_allclose(margins[free], margin, rtol=1e-3)
        errors = margins < margin * (1 - 1e-3)
        assert errors.mean() <= nu <= (coefficients > 0).mean()
        assert errors.any()


@pytest.mark.parametrize("exact", [False, True])
def test_a_path_holds_the_solutions_of_single_fits(cancer, exact):
    X, y, kernels = cancer
    path = cskl_path(CSKLClassifier(kernels[:6], C=10.0, tol=1e-5, exact=exact), X, y)
    assert path.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert_allclose(path.weights.sum(axis=1), path.values)
    assert (np.diff(path.objectives) <= 1e-9).all()
    for t, objective in zip((2, 5), path.objectives[[1, 4]]):
        single = CSKLClassifier(kernels[:6], t=t, C=10.0, tol=1e-5, exact=exact).fit(X, y)
        assert_allclose(single.objective_, objective, rtol=2e-5)
    if exact:
        assert path.n_kernels.tolist() == [1, 2, 3, 4, 5, 6]
        assert path.n_groups([0, 0, 0, 0, 0, 0]).tolist() == [1] * 6
    assert path.n_groups([[0, 1, 2], [3, 4, 5]])[-1] == 2


@pytest.mark.parametrize("svm", ["C", "nu", "no bias"])
def test_a_start_for_the_next_t_is_better_than_scaled_weights_and_feasible(svm):
    K, signs, C = make_kernels(n_kernels=8, n=60)
    inner = {"C": CSVM(signs, C), "nu": NuSVM(signs, 0.4), "no bias": CSVM(signs, C, bias=False)}[svm]
    _, known = solve(K, inner, 4.0, "newton")
    problem = CappedProblem(DenseStack(K), inner, CappedSimplex(4.5), memory=1 << 30)
    weights, alpha, settled = continued(problem, known.weights, known.alpha)
    assert settled
    assert problem.holds(weights)
    assert inner.violation(alpha) <= 1e-12
    values = [problem.solve_inner(g, alpha, 1e-9)[0] for g in (weights, problem.weight_set.weights(known.weights))]
    assert values[0] < values[1]
    # coefficients are right to first order: better than those of the last t on the new kernel
    assert problem.certificate(weights, alpha).gap < problem.certificate(weights, known.alpha).gap


def test_a_second_fit_of_the_same_problem_has_nothing_to_do(cancer):
    X, y, kernels = cancer
    model = CSKLClassifier(kernels, t=3, C=10.0, warm_start=True).fit(X, y)
    objective = model.objective_
    model.fit(X, y)
    assert model.n_iter_ == 1
    assert model.objective_ == objective
    model.set_params(C=0.1).fit(X, y)  # coefficients of the last fit are beyond the new bound
    assert_allclose(model.objective_, CSKLClassifier(kernels, t=3, C=0.1).fit(X, y).objective_, rtol=2e-3)


def test_scores_and_kernels_along_a_path_are_drawn(cancer):
    pytest.importorskip("matplotlib").use("Agg")
    X, y, kernels = cancer
    path = cskl_path(CSKLClassifier(kernels[:4], C=10.0), X, y, t=[3, 1, 2.5])
    display = path.plot_scores(X, y)
    assert display.axes_[0].lines[0].get_xdata().tolist() == [1, 2.5, 3]
    assert display.axes_[1].lines[0].get_ydata().tolist() == path.n_kernels[[1, 2, 0]].tolist()
    again = path.plot_scores(X, y, axes=display.axes_, groups=[0, 0, 1, 1], name="again")
    assert len(again.axes_[0].lines) == 2


def test_cross_validation_chooses_the_smallest_t_with_the_best_mean_score(cancer):
    X, y, kernels = cancer
    model = CSKLClassifierCV(kernels[:5], ts=[1, 2, 3.5], C=10.0, cv=3).fit(X, y)
    assert model.split_scores_.shape == (3, 3)
    assert_allclose(model.scores_, model.split_scores_.mean(axis=0))
    assert model.t_ == model.ts_[np.argmax(model.scores_)]
    plain = CSKLClassifier(kernels[:5], t=model.t_, C=10.0).fit(X, y)
    assert_allclose(model.decision_function(X), plain.decision_function(X))
    search = GridSearchCV(CSKLClassifier(kernels[:5], C=10.0), {"t": [1, 2, 3.5]}, cv=3).fit(X, y)
    assert_allclose(search.cv_results_["mean_test_score"], model.scores_, atol=0.011)  # solutions agree to tol


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("weights", ["shared", "per-class"])
@pytest.mark.parametrize("exact", [False, True])
def test_several_classes(multi_class, weights, exact):
    X, y = load_iris(return_X_y=True)
    kernels = [RBF(columns=[j]) for j in range(4)]
    model = CSKLClassifier(kernels, t=2, C=10.0, multi_class=multi_class, weights=weights, exact=exact).fit(X, y)
    assert model.weights_.shape == ((4,) if weights == "shared" else (3, 4))
    assert_allclose(np.atleast_2d(model.weights_).sum(axis=1), 2.0)
    assert np.all(model.dual_gap_ <= 1e-3 * np.abs(model.objective_))
    assert model.score(X, y) >= 0.94


def test_a_warm_start_may_be_from_another_t(cancer):
    X, y, kernels = cancer
    model = CSKLClassifier(kernels, t=3, warm_start=True).fit(X, y)
    assert not hasattr(model, "selection_gap_")
    model.set_params(t=3.5).fit(X, y)
    assert_allclose(model.weights_.sum(), 3.5)
    assert model.converged_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"t": 0.5}, "from 1 to the number of kernels"),
        ({"t": 11}, "out of 10"),
        ({"t": "2"}, "must be a number"),
        ({"t": 2.5, "exact": True}, "whole number of kernels"),
        ({"solver": "simplemkl"}, "not known"),
        ({"weights": "mine"}, "not known"),
    ],
)
def test_bad_parameters_are_refused_with_advice(cancer, params, message):
    X, y, kernels = cancer
    with pytest.raises(ValueError, match=message), warnings.catch_warnings():
        CSKLClassifier(kernels, **params).fit(X, y)


def test_linear_programs_for_directions_stay_in_the_set():
    # two choices that are the same but for rounding made a direction, and a weight went from 0.16 to 1 along it
    generator = np.random.default_rng(134)
    signs = np.where(np.arange(12) % 2, 1.0, -1.0)
    u, v, t = generator.uniform(size=12), generator.uniform(size=12), generator.uniform(1.0, 1.5)
    K = np.stack([np.diag(u), np.diag(v), np.outer(signs, signs)], axis=-1)
    model = CSKLClassifier("precomputed", t=t, nu=0.3, solver="lp", tol=1e-5).fit(K, signs)
    assert_allclose(model.weights_.sum(), t, rtol=1e-12)
