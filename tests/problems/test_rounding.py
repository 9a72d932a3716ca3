"""Certificates hold in spite of rounding: where sums cancel, what they claim is recomputed in extended precision."""

import warnings
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from mkl_problems import make_kernels
from references import (
    REAL,
    Ball,
    Capped,
    Penalised,
    claim,
    margin_loss,
    norm,
    products,
    result_of,
    svm_bracket,
    worst_label_bracket,
)
from sklearn.exceptions import ConvergenceWarning

from multikernel import CSKLClassifier, MKLClassifier
from multikernel.gram import DenseStack, LowRankStack
from multikernel.problems.certificate import Certificate, Rounding
from multikernel.problems.cgboost import ColumnProblem
from multikernel.problems.fisher import FisherProblem, fisher_system, fisher_targets
from multikernel.problems.gmkl import GeneralizedProblem, SumOfKernels
from multikernel.problems.losses import LogisticLoss, SmoothedHinge, SquaredHinge
from multikernel.problems.lpbeta import MarginProblem
from multikernel.problems.minmax import MinMaxProblem
from multikernel.problems.multilabel import LabelSumProblem, WorstLabelProblem
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.problems.regularizers import L1
from multikernel.problems.svrg import SmoothProblem
from multikernel.problems.vskl import VSKLProblem
from multikernel.problems.weight_sets import CappedSimplex, LpBall
from multikernel.runtime.monitor import Monitor
from multikernel.solvers.average import OneKernelProblem
from multikernel.solvers.common.newton import newton
from multikernel.svm import CSVM, LabelSVMs, NuSVM

C, P = 1e4, 1.01


def rank_one(seed, n_kernels, n=30):
    """Kernels of size 1e8, which with a large C lose eight digits where coefficients cancel, and labels."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=n), rng.integers(0, 2, size=n)
    return 1e8 * np.stack([np.outer(z, z) for z in [x, *rng.normal(size=(n_kernels - 1, n))]]), y


def single_precision(seed, n, n_kernels=3):
    """Kernels of low rank and size 1e8 that are positive semi-definite but for single precision, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, size=n)
    y[:2] = 0, 1
    A = rng.normal(size=(n_kernels, n, 3))
    return (1e8 * A @ A.transpose(0, 2, 1)).astype(np.float32), y


def quietly_fitted(model, K, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(np.moveaxis(K, 0, -1), y)


def solution(model, n):
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_[0]
    return SimpleNamespace(alpha=alpha, weights=model.weights_)


def signs_of(model, y):
    return np.where(y == model.classes_[1], 1.0, -1.0)


@pytest.mark.parametrize("n_kernels", [1, 3])
@pytest.mark.parametrize("solver", ["auto", "smo"])
@pytest.mark.parametrize("seed", range(5))
def test_an_objective_is_not_below_what_its_solution_attains(seed, solver, n_kernels):
    K, y = rank_one(seed, n_kernels)
    model = quietly_fitted(MKLClassifier("precomputed", C=C, p=P, tol=1e-5, solver=solver, max_iter=4), K, y)
    attained = svm_bracket(K, CSVM(signs_of(model, y), C), Ball(P), solution(model, len(y)))
    assert attained.upper <= model.objective_
    assert attained.upper >= model.objective_ - model.dual_gap_


@pytest.mark.parametrize("solver", ["auto", "smo"])
@pytest.mark.parametrize("seed", range(5))
def test_bounds_enclose_the_optimum_where_sums_cancel(seed, solver):
    K, y = rank_one(seed, 1)
    model = quietly_fitted(MKLClassifier("precomputed", C=C, p=P, tol=1e-3, solver=solver), K, y)
    assert model.converged_ or solver == "smo"  # which rounding may stop short of tol, on some processors
    proved = svm_bracket(K, CSVM(signs_of(model, y), C), Ball(P), solution(model, len(y)))
    assert claim(model).dual <= proved.upper <= model.objective_


def test_a_tolerance_that_rounding_does_not_allow_is_said_to_be_one():
    K, y = rank_one(5, 1)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model = MKLClassifier("precomputed", C=C, p=P, tol=1e-9).fit(np.moveaxis(K, 0, -1), y)
    assert not model.converged_


@pytest.mark.parametrize(("seed", "n"), [(0, 20), (1, 20), (5, 20), (2, 12)])
def test_the_bound_of_an_exact_selection_is_not_above_the_best_choice(seed, n):
    K, y = single_precision(seed, n)
    # SVMs on these kernels go on until rounding stops them, which takes most of the time
    model = quietly_fitted(CSKLClassifier("precomputed", t=2, nu=0.3, exact=True, psd="ignore", max_time=5), K, y)
    svm, found = NuSVM(signs_of(model, y), 0.3), []
    for chosen in combinations(range(len(K)), 2):
        part = K[list(chosen)].astype(np.float64)
        alpha = svm.solve(part.sum(axis=0), tol=1e-4, max_iter=30, warn=False)[1]
        found.append(svm_bracket(part, svm, Capped(2.0), SimpleNamespace(alpha=alpha, weights=np.ones(2))))
    assert claim(model).dual <= min(bracket.upper for bracket in found)
    assert min(bracket.lower for bracket in found) <= model.objective_


# -- the parts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("labels", [None, 2])
def test_precise_products_are_right_to_the_last_digits(dtype, labels):
    K, _ = rank_one(0, 3)
    alpha = np.random.default_rng(1).normal(size=(30, labels or 1))
    alpha[::3] = 0.0
    alpha[1] -= (K[0, 0] @ alpha) / K[0, 0, 1]  # the first score is what rounding leaves of it
    stack = DenseStack(K.astype(dtype))
    exact = products(K.astype(dtype), alpha)
    found = stack.apply_precisely(alpha if labels else alpha[:, 0]).reshape(exact.shape)
    np.testing.assert_allclose(found, exact.astype(float), rtol=4e-16, atol=1e-20 * np.abs(K).max())
    assert not stack.apply_precisely(np.zeros(30)).any()


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_errors_are_within_their_bounds(seed, precise):
    K, _ = rank_one(seed, 3)
    stack, rng = DenseStack(K), np.random.default_rng(seed)
    alpha, weights = rng.normal(size=30), rng.uniform(size=3)
    exact, scores = products(K, alpha[:, None])[:, :, 0], (stack.apply_precisely if precise else stack.apply)(alpha)
    rounding, sizes, form_sizes = Rounding(stack), None, None
    if precise:
        sizes, form_sizes = np.tensordot(weights, np.abs(scores), 1), np.abs(scores) @ np.abs(alpha)
    off = np.abs(np.tensordot(weights, scores, 1) - np.tensordot(weights.astype(np.longdouble), exact, 1))
    assert (off <= rounding.of_scores(weights, alpha, sizes)).all()
    assert (np.abs((scores * alpha).sum(axis=1) - exact @ alpha) <= rounding.of_forms(alpha, form_sizes)).all()


def test_precise_scores_leave_less_to_rounding():
    K, _ = rank_one(0, 3)
    stack, alpha = DenseStack(K), np.zeros(30)
    alpha[:2] = 1.0, -K[0, 0, 0] / K[0, 0, 1]
    rounding, scores = Rounding(stack), stack.apply_precisely(alpha)
    weights = np.array([1.0, 0.0, 0.0])
    sizes = np.tensordot(weights, np.abs(scores), 1)
    assert (rounding.of_scores(weights, alpha, sizes) < 1e-6 * rounding.of_scores(weights, alpha)).all()


def test_moving_alpha_changes_forms_by_no_more_than_is_said():
    K, _, _ = make_kernels()
    stack, rng = DenseStack(K), np.random.default_rng(0)
    alpha, step = rng.normal(size=(2, K.shape[1]))
    before, after = stack.quadratic_forms(alpha), stack.quadratic_forms(alpha + step)
    assert (np.abs(after - before) <= Rounding(stack).of_shift(np.abs(step).sum(), before)).all()


@pytest.mark.parametrize("inner", [CSVM, NuSVM])
def test_values_of_an_svm_hold_for_all_scores_within_their_errors(inner):
    rng = np.random.default_rng(0)
    signs = np.where(np.arange(20) % 2, 1.0, -1.0)
    svm = inner(signs)
    K = np.cov(rng.normal(size=(20, 30)))
    alpha = svm.solve(K)[1]
    scores, error = K @ alpha, rng.uniform(0.0, 1e-3, size=20)
    claimed = svm.certificate(scores, alpha, error)
    for _ in range(50):
        found = svm.certificate(scores + error * rng.choice([-1.0, 1.0], size=20), alpha)
        assert claimed.dual <= found.dual
        assert found.primal <= claimed.primal


def test_a_separating_solution_is_judged_with_the_errors_of_its_scores():
    svm, alpha = CSVM([-1, 1], C=1e12), np.array([-0.5, 0.5])
    claimed = svm.certificate(np.array([-1.0, 1.0]), alpha, np.full(2, 0.1))
    assert claimed.primal == pytest.approx(0.5 * (1.0 + 0.1) / 0.9**2)


def test_ordinary_problems_need_no_precise_scores():
    K, signs, C = make_kernels()
    problem = MinMaxProblem(DenseStack(K), CSVM(signs, C), LpBall(2.0), memory=1 << 30)
    result = result_of(newton, problem, 1e-6)
    assert result.converged
    assert result.certificate.rounding < 1e-9 * result.certificate.primal
    assert problem.sharpen()  # it was not asked before
    assert not problem.sharpen()


def test_kernels_made_of_features_cannot_be_sharpened():
    stack = LowRankStack([np.random.default_rng(0).normal(size=(10, 2))])
    problem = MinMaxProblem(stack, CSVM(np.where(np.arange(10) % 2, 1.0, -1.0)), LpBall(2.0), memory=1 << 20)
    assert not problem.sharpen()


@pytest.mark.parametrize("low_rank", [False, True])
def test_an_optimum_of_zero_is_found_and_enclosed(low_rank):
    rng = np.random.default_rng(0)
    X = [np.tile(rng.normal(size=(10, 2)), (2, 1)) for _ in range(2)]  # the classes lie on each other
    stack = LowRankStack(X) if low_rank else DenseStack(np.stack([x @ x.T for x in X]))
    svm = NuSVM(np.repeat([-1.0, 1.0], 10), 0.5)
    problem = MinMaxProblem(stack, svm, CappedSimplex(1.0), memory=1 << 20)
    result = result_of(newton, problem, 1e-3)
    assert result.converged
    assert result.certificate.dual <= 0.0 <= result.certificate.primal


@pytest.mark.parametrize("inner", [lambda signs: CSVM(signs, C), lambda signs: LabelSVMs(signs[:, None], C)])
def test_groups_and_labels_include_their_rounding(inner):
    K, y = rank_one(1, 2)
    svms = inner(np.where(y, 1.0, -1.0))
    for problem in (
        VSKLProblem(DenseStack(K), svms, [[0], [1]], memory=1 << 20),
        MinMaxProblem(DenseStack(K), svms, LpBall(P), memory=1 << 20),
    ):
        weights, alpha = problem.start()
        alpha = problem.solve_inner(weights, alpha, 1e-3)[1]
        blurred = problem.certificate(weights, alpha)
        assert problem.sharpen()
        sharp = problem.certificate(weights, alpha)
        assert sharp.rounding < 1e-3 * blurred.rounding
        assert blurred.dual <= sharp.dual <= sharp.primal <= blurred.primal


def one_kernel(stack, signs):
    problem = OneKernelProblem(stack.combine(np.ones(3)), CSVM(signs[:, 0], C), np.ones(3))
    weights, alpha = problem.start()
    alpha = problem.inner.solve(problem.operator, alpha, tol=1e-3, warn=False)[1]
    kernel = problem.operator.K[None]
    return problem, weights, alpha, svm_bracket(kernel, problem.inner, Ball(1.0), candidate(np.ones(1), alpha))


def penalised(stack, signs):
    problem = GeneralizedProblem(stack, CSVM(signs[:, 0], C), SumOfKernels(), L1(), 1e5, memory=1 << 20)
    weights, alpha = problem.start()
    alpha = problem.solve_inner(weights, alpha, 1e-3)[1]
    penalty = Penalised("L1", 1e5)
    return problem, weights, alpha, svm_bracket(stack.to_array(), problem.inner, penalty, candidate(weights, alpha))


def label_sum(stack, signs):
    problem = LabelSumProblem(stack, LabelSVMs(signs, C), memory=1 << 20)
    weights, alpha = problem.start()
    alpha = problem.solve_inner(weights, alpha, 1e-3)[1]
    bracket = svm_bracket(stack.to_array(), problem.inner, Ball(1.0), candidate(weights, alpha))
    return problem, weights, alpha, bracket


def worst_label(stack, signs):
    problem = WorstLabelProblem(stack, LabelSVMs(signs, C), memory=1 << 20)
    weights, alpha = problem.start()
    alpha = problem.solve_labels(weights, alpha, np.arange(2), np.full(2, 1e-3))
    return problem, weights, alpha, worst_label_bracket(problem, candidate(weights, alpha))


def candidate(weights, alpha):
    return SimpleNamespace(weights=weights, alpha=alpha)


@pytest.mark.parametrize("make", [one_kernel, penalised, label_sum, worst_label])
@pytest.mark.parametrize("seed", range(4))
def test_every_certificate_of_svms_holds_for_exact_sums(make, seed):
    K, y = rank_one(seed, 3)
    signs = np.where(np.column_stack([y, np.random.default_rng(seed).permutation(y)]), 1.0, -1.0)
    problem, weights, alpha, exact = make(DenseStack(K), signs)
    claimed = problem.certificate(weights, alpha)
    assert claimed.rounding > 1e-12 * claimed.primal
    assert claimed.dual <= exact.lower
    assert exact.upper <= claimed.primal
    if problem.sharpen():
        sharp = problem.certificate(weights, alpha)
        assert sharp.rounding < 1e-3 * claimed.rounding
        assert claimed.dual <= sharp.dual <= sharp.primal <= claimed.primal


@pytest.mark.parametrize("make", [penalised, label_sum, worst_label])
def test_single_precision_of_a_combined_kernel_is_part_of_the_rounding(make):
    K, y = single_precision(1, 30)
    signs = np.where(np.column_stack([y, y[::-1]]), 1.0, -1.0)
    problem, weights, alpha, exact = make(DenseStack(K), signs)
    claimed = problem.certificate(weights, alpha)
    assert claimed.dual <= exact.lower
    assert exact.upper <= claimed.primal
    assert problem.sharpen()
    assert problem.certificate(weights, alpha).rounding < 1e-3 * claimed.rounding


def test_a_monitor_asks_for_precision_only_where_rounding_hides_the_gap():
    class Blurred:
        asked, rounding = 0, 0.5

        def certificate(self, weights, alpha):
            return Certificate(1.0 + self.rounding, 0.99, rounding=self.rounding)

        def sharpen(self):
            self.asked, self.rounding = self.asked + 1, 0.0
            return True

    sharp, rough, coarse = Blurred(), Blurred(), Blurred()
    assert Monitor(sharp, tol=0.02)(np.ones(1), np.ones(1))
    assert sharp.asked == 1
    assert Monitor(rough, tol=0.9)(np.ones(1), np.ones(1))
    coarse.rounding = 1e-4
    Monitor(coarse, tol=1e-3)(np.ones(1), np.ones(1))
    assert rough.asked == coarse.asked == 0


def test_a_solver_that_ends_above_a_tolerance_below_rounding_stopped_for_rounding():
    class Blurred:
        def certificate(self, weights, alpha):
            return Certificate(1.0, 0.9, rounding=0.05)

    monitor = Monitor(Blurred(), tol=1e-3)
    assert not monitor(np.ones(1), np.ones(1))
    assert monitor.result().stopped == "rounding"


def test_a_gap_below_the_resolution_counts_as_none():
    proof = Certificate(1e-17, -1e-17, resolution=1e-16)
    assert proof.gap > proof.relative_gap == 0.0
    assert replace(proof, resolution=0.0).relative_gap > 1.0


# -- problems without SVMs -----------------------------------------------------------------------------------------


def cancelling(K, rng, size=1e3):
    """Coefficients (n, 1) that rank-one kernels map to next to nothing: scores are what rounding leaves."""
    alpha = size * rng.normal(size=(K.shape[1], 1))
    basis = np.linalg.qr(K[:, 0].T)[0]
    return alpha - basis @ (basis.T @ alpha)


def explicit(K):
    """The same rank-one kernels as features."""
    return LowRankStack([k[:, [0]] / np.sqrt(k[0, 0]) for k in K])


def assert_bounds(values, certificates):
    """Every exact value is within the claimed ones, and some only because rounding is counted in."""
    needed = []
    for (primal, dual), proof in zip(values, certificates):
        assert proof.dual <= dual + 1e-16 * abs(primal)  # the library's 1/n is rounded
        assert primal <= proof.primal
        needed += [proof.primal - proof.rounding < primal, dual < proof.dual + proof.rounding]
    assert any(needed)


# entries made of features are rounded themselves, so more precise sums of them would prove nothing
@pytest.mark.parametrize(("storage", "sharp"), [(DenseStack, False), (DenseStack, True), (explicit, False)])
@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("logistic", LogisticLoss),
        ("squared_hinge", SquaredHinge),
        ("smoothed_hinge", lambda y: SmoothedHinge(y, width=0.5)),
    ],
)
def test_values_of_smooth_losses_hold_in_spite_of_rounding(name, make, storage, sharp):
    lam, values, proofs = 1e-4, [], []
    for seed in range(5):
        K, y = rank_one(seed, 3)
        signs, rng = np.where(y, 1.0, -1.0), np.random.default_rng(seed)
        stack, loss, exact_loss = storage(K), make(signs), margin_loss(name, signs)
        K = np.stack([f @ f.T for f in stack.row_features]) if storage is explicit else K
        problem = SmoothProblem(stack, loss, lam, 1.5)
        alpha, weights = cancelling(K, rng), problem.weight_set.weights(rng.uniform(size=3))
        assert not sharp or problem.sharpen()
        proofs.append(problem.certificate(weights, alpha))
        images = features_of(stack, alpha) if storage is explicit else products(K, alpha)
        scores = np.tensordot(weights.astype(REAL), images, 1)
        primal = lam / 2 * (alpha * scores).sum() + exact_loss.value(scores)
        points = loss.feasible(-loss.gradient(problem.rounded_scores(weights, alpha)[0])), loss.feasible(lam * alpha)
        bounds = []
        for dual in (point for point in points if point is not None):
            images = features_of(stack, dual) if storage is explicit else products(K, dual)
            forms = np.maximum((images * dual).sum(axis=(1, 2)), 0)
            # the conjugate at a slope u is v·u − loss(v) where the loss has that slope
            with np.errstate(divide="ignore", invalid="ignore"):  # slopes of infinite scores
                places = np.clip(exact_loss.inverse(-dual.astype(REAL)), -100, 100)
            places = np.where(np.isnan(places), -100 * np.sign(dual), places)
            bounds.append(exact_loss.value(places) + (dual * places).sum() - norm(forms, 3) / (2 * lam))
        values.append((primal, max(bounds)))
    assert_bounds(values, proofs)


def features_of(stack, alpha):
    """``K_j alpha`` of kernels with one feature each, the sums correctly rounded."""
    sums = products(np.stack([f.T for f in stack.row_features]), alpha)
    return np.stack([f.astype(REAL) @ s for f, s in zip(stack.row_features, sums)])


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("storage", [DenseStack, explicit])
def test_values_of_fisher_discriminants_hold_in_spite_of_rounding(storage, sharp):
    reg, values, proofs = 1e-3, [], []
    for seed in range(5):
        K, y = rank_one(seed, 3)
        stack, rng = storage(K), np.random.default_rng(seed)
        H = fisher_targets(y, 2)
        problem = FisherProblem(fisher_system(stack, reg, 1 << 30), H, LpBall(1.5))
        alpha, weights = cancelling(K, rng, 10.0), problem.weight_set.weights(rng.uniform(size=3))
        assert not sharp or problem.sharpen()
        proofs.append(problem.certificate(weights, alpha))
        images = features_of(stack, alpha) if storage is explicit else products(K, alpha)
        scores = np.tensordot(weights.astype(REAL), images, 1)
        primal = ((H - scores) ** 2).sum() + reg * max((alpha * scores).sum(), 0)
        form = norm(np.maximum((images * alpha).sum(axis=(1, 2)), 0), 3)
        agreement = (H.astype(REAL) * alpha).sum()
        values.append((primal, reg * agreement**2 / (reg * (alpha.astype(REAL) ** 2).sum() + form)))
    assert_bounds(values, proofs)


def test_values_of_the_margin_program_hold_in_spite_of_rounding():
    values, proofs = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        scores, codes = 1e8 + rng.normal(size=(5, 30, 4)), np.arange(30) % 4
        problem = MarginProblem(scores, codes, nu=0.3)
        weights, prices = problem.members(rng.uniform(size=5)), problem.prices(rng.exponential(size=(30, 4)))
        proofs.append(problem.certificate(weights, prices))
        own = np.arange(30), codes
        mixed = np.tensordot(weights.astype(REAL) / weights.astype(REAL).sum(), scores.astype(REAL), 1)
        margins = mixed[own][:, None] - mixed
        margins[own] = np.inf
        smallest = margins.min(axis=1)
        primal = min(problem.caps @ np.maximum(rho - smallest, 0) - rho for rho in smallest)
        u = prices.astype(REAL) / prices.astype(REAL).sum()
        gains = ((scores.astype(REAL)[:, own[0], codes][:, :, None] - scores) * u).sum(axis=(1, 2))
        values.append((primal, -gains.max()))
    assert_bounds(values, proofs)


def test_values_of_kernel_columns_hold_in_spite_of_rounding():
    values, proofs = [], []
    for seed in range(5):
        K, y = rank_one(seed, 2)
        K, rng = 1e-4 * K, np.random.default_rng(seed)
        svms = LabelSVMs(np.where(y, 1.0, -1.0)[:, None], 1e3)
        problem = ColumnProblem(DenseStack(K), svms)
        alpha = svms.repair(cancelling(K, rng, 10.0))
        proofs.append(problem.certificate(np.ones(2), alpha))
        columns = products(K, alpha)
        scores = sum(k.astype(REAL) @ column for k, column in zip(K, columns))
        bias = svms.intercept(scores.astype(float))
        losses = np.maximum(1 - svms.signs * (scores + bias), 0).sum()
        quadratic = (columns**2).sum() / 2
        linear = REAL(np.abs(alpha).sum())
        share = np.clip(linear / (2 * quadratic), 0, 1)
        values.append((quadratic + 1e3 * losses, share * linear - share**2 * quadratic))
    assert_bounds(values, proofs)


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_of_the_group_norm_hold_in_spite_of_rounding(dtype, sharp):
    lam, p, values, proofs = 1e-6, 1.5, [], []
    for seed in range(5):
        K, _ = rank_one(seed, 3)
        K, rng = K.astype(dtype), np.random.default_rng(seed)
        loss = MulticlassHinge(np.arange(30) % 3, 3)
        problem = ObscureProblem(DenseStack(K), loss, lam, p)
        alpha, weights = np.hstack([cancelling(K.astype(float), rng) for _ in range(3)]), rng.uniform(size=3)
        assert not sharp or problem.sharpen()
        proofs.append(problem.certificate(weights, alpha))
        own, images = (np.arange(30), loss.labels), products(K, alpha)
        scores = np.tensordot(weights.astype(REAL), images, 1)
        norms = weights * np.sqrt(np.maximum((images * alpha).sum(axis=(1, 2)), 0))
        losses = (loss.cost[loss.labels] + scores - scores[own][:, None]).max(axis=1)
        primal = lam / 2 * norm(norms, p) ** 2 + loss.importance @ losses
        dual = lam * problem.feasible(alpha)
        size = norm(np.sqrt(np.maximum((products(K, dual) * dual).sum(axis=(1, 2)), 0)), 3) ** 2
        linear = -(loss.cost[loss.labels].astype(REAL) * dual).sum()
        share = np.clip(lam * linear / size, 0, 1)
        values.append((primal, share * linear - share**2 * size / (2 * lam)))
    assert_bounds(values, proofs)
