"""Multiple kernel Fisher discriminant analysis: optimum, certificate, solvers, what the paper promises."""

import warnings
from functools import partial
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from references import fisher_bracket, result_of
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

from multikernel import MKFDAClassifier, MKFDAClassifierCV
from multikernel.gram import DenseStack, LowRankStack
from multikernel.kernels import RBF, Linear, Nystroem
from multikernel.problems.certificate import Certificate
from multikernel.problems.fisher import DenseSystem, FisherProblem, LowRankSystem, fisher_system, fisher_targets
from multikernel.problems.primal import CholeskyFactor
from multikernel.problems.weight_sets import LpBall
from multikernel.solvers.catalogue import SOLVERS, find_solver
from multikernel.solvers.fisher import solve_fisher

P_VALUES = [1.0, 1.0 + 2.0**-6, 1.5, 2.0, 8.0, 1e6]


def simulate(n_classes, n=40, n_kernels=5, seed=0):
    """Centred kernels of unit trace (F, n, n) and unbalanced classes; the first two kernels know the classes."""
    rng = np.random.default_rng(seed)
    share = np.arange(1.0, n_classes + 1)
    y = rng.choice(n_classes, size=n, p=share / share.sum())
    y[: 2 * n_classes] = np.repeat(np.arange(n_classes), 2)
    centre = np.eye(n) - 1.0 / n
    kernels = []
    for j in range(n_kernels):
        X = rng.normal(size=(n, 3))
        X[:, 0] += y * (j < 2)
        D = ((X[:, None] - X) ** 2).sum(axis=-1)
        K = centre @ np.exp(-D / D.mean()) @ centre
        kernels.append(K / np.trace(K))
    return np.stack(kernels), y


def problem_of(K, y, reg, p):
    return FisherProblem(fisher_system(DenseStack(K), reg, 1 << 30), fisher_targets(y, y.max() + 1), LpBall(p))


def solve(problem, tol=1e-7, solver="auto", max_iter=500):
    return result_of(solve_fisher, problem, tol, None, run=find_solver("fisher", solver).run, max_iter=max_iter)


@pytest.mark.parametrize("p", P_VALUES)
@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_objective_is_the_optimum(n_classes, p):
    K, y = simulate(n_classes, n=36, n_kernels=4, seed=n_classes)
    reg = 1e-2
    model = MKFDAClassifier("precomputed", p=p, reg=reg, normalize=None, tol=1e-7).fit(np.moveaxis(K, 0, -1), y)
    assert model.dual_gap_ <= 1e-7 * abs(model.objective_)
    alpha = np.zeros((len(y), len(model.dual_coef_)))
    alpha[model.support_] = model.dual_coef_.T
    candidate = SimpleNamespace(weights=model.weights_, alpha=alpha)
    proof = Certificate(-model.objective_, -model.objective_ - model.dual_gap_)  # of the minimum
    fisher_bracket(K, fisher_targets(y, n_classes), reg, p, candidate).proves(proof, 1e-7)


# the printed stop ends the expansions of a steep norm before they have a certificate
CERTIFYING = [(solver, p) for solver in SOLVERS["fisher"] for p in (1.0, 1.25, 2.0, 100.0)]
CERTIFYING.remove(("sip-printed", 100.0))


@pytest.mark.parametrize(("solver", "p"), CERTIFYING)
def test_every_solver_certifies_the_same_optimum(solver, p):
    K, y = simulate(3)
    tol = 1e-3 if solver == "closed-form" and p == 1.0 else 1e-5  # which is slow there
    reference = solve(problem_of(K, y, 1e-3, p), tol=1e-9)
    result = solve(problem_of(K, y, 1e-3, p), tol=tol, solver=solver, max_iter=1000)
    assert result.converged
    assert reference.converged
    assert result.certificate.primal == pytest.approx(reference.certificate.primal, rel=tol)
    assert result.certificate.dual <= reference.certificate.primal


def table_1(K, H, reg, p, n_steps):
    """Table 1 of [YMBCK10] as printed, by plain systems and cvxpy: the weights of each step, and S, θ at each."""
    n, F, scale = len(H), len(K), np.vdot(H, H)
    exact = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)
    beta, theta, cuts, path = np.full(F, F ** (-1 / p)), -np.inf, [], []
    for _ in range(n_steps):
        alpha = np.linalg.solve(0.5 * np.eye(n) + np.tensordot(beta, K, axes=1) / (2 * reg), H)
        slope = np.array([np.trace(alpha.T @ k @ alpha) for k in K]) / (4 * reg)
        constant = 0.25 * np.vdot(alpha, alpha) - np.vdot(alpha, H)
        path.append((beta, constant + slope @ beta, theta))
        cuts.append((constant, slope))
        b, t = cp.Variable(F, nonneg=True), cp.Variable()
        norm = p * (p - 1) / 2 * cp.sum(cp.multiply(beta ** (p - 2), b**2)) - p * (p - 2) * beta ** (p - 1) @ b
        limits = [(c + s @ b) / scale >= t for c, s in cuts]
        cp.Problem(cp.Maximize(t), [*limits, norm + p * (p - 3) / 2 + 1 <= 1]).solve(solver="CLARABEL", **exact)
        beta, theta = np.maximum(b.value, 1e-8), scale * float(t.value)
    return path


@pytest.mark.parametrize("p", [1.25, 2.0, 3.0])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_printed_program_is_table_1_step_by_step(n_classes, p):
    K, y = simulate(n_classes, n=30, n_kernels=3)
    expected = table_1(K, fisher_targets(y, n_classes), 1e-2, p, 5)
    result = solve(problem_of(K, y, 1e-2, p), tol=1e-12, solver="sip-printed", max_iter=5)
    # where a weight has vanished the expansion divides by a power of it, and solvers agree on fewer digits
    gone = [t for t, (beta, _, _) in enumerate(expected) if beta.min() < 1e-6]
    compared = list(zip(result.history, expected))[: gone[0] + 1 if gone else None]
    assert len(compared) >= 2
    for row, (beta, _, _) in compared:
        assert_allclose(row["weights"], beta / max(1.0, np.sum(beta**p) ** (1 / p)), atol=1e-4)
    stops = [abs(1 - S / theta) for _, S, theta in expected[1:]]
    eps = np.sqrt(stops[0] * stops[1])  # far from both; the first that is as small ends the run
    until = 2 + next(t for t, stop in enumerate(stops) if stop <= eps)
    early = solve(problem_of(K, y, 1e-2, p), tol=eps, solver="sip-printed")
    assert len(early.history) <= until  # or a certified gap did


def test_certificate_brackets_the_optimum_at_any_weights_and_alpha():
    K, y = simulate(3)
    problem = problem_of(K, y, 1e-2, 1.5)
    optimum = solve(problem, tol=1e-10).certificate
    rng = np.random.default_rng(1)
    for _ in range(20):
        weights = problem.weight_set.project(rng.uniform(size=5))
        alpha = problem.solve_inner(weights)[1] + rng.uniform() * rng.normal(size=(40, 3))
        proof = problem.certificate(weights, alpha)
        assert proof.dual <= optimum.primal * (1 + 1e-9)
        assert proof.primal >= optimum.dual * (1 - 1e-9)


def test_value_is_that_of_the_papers_objective():
    K, y = simulate(3)
    reg, H = 1e-2, fisher_targets(y, 3)
    problem = problem_of(K, y, reg, 2.0)
    weights = np.array([0.5, 0.4, 0.3, 0.2, 0.1])
    value, alpha = problem.solve_inner(weights)
    A = np.eye(len(y)) + np.tensordot(weights, K, axes=1) / reg
    a = 2.0 * reg * alpha
    assert 0.25 * np.trace(a.T @ A @ a) - np.vdot(a, H) == pytest.approx(-value, rel=1e-10)
    assert value == pytest.approx(np.trace(H.T @ np.linalg.solve(A, H)), rel=1e-10)
    constant, q = problem.cut(alpha)
    assert constant - 0.5 * weights @ q == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize("low_rank", [False, True])
def test_gradient_and_curvature_are_those_of_finite_differences(low_rank):
    K, y = simulate(3, n=20, n_kernels=3)
    system = LowRankSystem(low_rank_stack(K), 1e-2) if low_rank else DenseSystem(DenseStack(K), 1e-2)
    problem = FisherProblem(system, fisher_targets(y, 3), LpBall(1.0))
    weights, step = np.array([0.5, 0.3, 0.2]), 1e-4

    def gradient(w):
        return -0.5 * problem.quadratic_forms(problem.solve_inner(w)[1])

    moves = step * np.eye(3)
    slopes = [(problem.solve_inner(weights + m)[0] - problem.solve_inner(weights - m)[0]) / (2 * step) for m in moves]
    assert_allclose(gradient(weights), slopes, rtol=1e-5)
    bends = [(gradient(weights + m) - gradient(weights - m)) / (2 * step) for m in moves]
    curvature = problem.curvature(weights, problem.solve_inner(weights)[1])
    assert_allclose(curvature, bends, rtol=1e-4)


def low_rank_stack(K):
    """Exact features of each kernel."""
    features = []
    for kernel in K:
        values, vectors = np.linalg.eigh(kernel)
        keep = values > 1e-12 * values[-1]
        features.append(vectors[:, keep] * np.sqrt(values[keep]))
    return LowRankStack(features)


def test_low_rank_stacks_give_the_dense_answer():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 6)) + y[:, None]
    features = [X[:, :2], X[:, 2:4], X[:, 4:]]
    features = [f - f.mean(axis=0) for f in features]
    stack = LowRankStack([f / np.sqrt((f**2).sum()) for f in features])
    targets = fisher_targets(y, 3)
    system = fisher_system(stack, 1e-3, 1 << 30)
    assert isinstance(system, LowRankSystem)
    thin = solve(FisherProblem(system, targets, LpBall(1.25)))
    problem = FisherProblem(DenseSystem(DenseStack(stack.to_array()), 1e-3), targets, LpBall(1.25))
    full = solve(problem)
    assert thin.certificate.primal == pytest.approx(full.certificate.primal, rel=1e-7)
    assert_allclose(thin.weights, full.weights, rtol=1e-3)
    assert_allclose(
        FisherProblem(system, targets, LpBall(1.25)).leave_one_out(full.weights, full.alpha, centered=True),
        problem.leave_one_out(full.weights, full.alpha, centered=True),
        rtol=1e-6,
    )


def test_many_samples_are_solved_in_the_space_of_features():
    rng = np.random.default_rng(0)
    n = 20_000
    y = rng.integers(0, 3, size=n)
    X = rng.normal(size=(n, 4)) + np.eye(3, 4)[y] * 2.0
    kernels = [Linear(), Nystroem(rank=20, columns=[0, 1, 2], random_state=0)]
    model = MKFDAClassifier(kernels, p=2.0, memory="200MB").fit(X, y)
    assert model.converged_
    assert model.score(X, y) > 0.7
    with pytest.raises(MemoryError, match="Nystroem"):
        fisher_system(DenseStack(np.broadcast_to(np.zeros(1), (1, n, n))), 1e-3, 1 << 30)


def test_one_kernel_is_the_direct_linear_system():
    K, y = simulate(3, n_kernels=1)
    model = MKFDAClassifier("precomputed", reg=1e-2, normalize=None).fit(np.moveaxis(K, 0, -1), y)
    H = fisher_targets(y, 3)
    assert_allclose(model.weights_, [1.0])
    paper = np.linalg.solve(0.5 * np.eye(len(y)) + K[0] / (2 * 1e-2), H)
    assert_allclose(2 * 1e-2 * model.dual_coef_.T, paper, rtol=1e-8)
    assert_allclose(model.transform(np.moveaxis(K, 0, -1)), K[0] @ np.linalg.solve(K[0] + 1e-2 * np.eye(40), H))


def test_linear_kernel_gives_the_direction_of_linear_discriminant_analysis():
    rng = np.random.default_rng(0)
    y = (np.arange(120) < 40).astype(int)
    X = rng.normal(size=(120, 4)) @ rng.normal(size=(4, 4)) + 1.5 * y[:, None]
    model = MKFDAClassifier([Linear()], reg=1e-10).fit(X, y)
    direction = model.dual_coef_ @ (X - X.mean(axis=0))[model.support_]
    lda = LinearDiscriminantAnalysis().fit(X, y).coef_
    cosine = (direction @ lda.T).item() / (np.linalg.norm(direction) * np.linalg.norm(lda))
    assert cosine > 1.0 - 1e-6


def test_scale_of_a_kernel_does_not_matter_after_unit_trace():
    K, y = simulate(3)
    X = np.moveaxis(K, 0, -1)
    factors = np.array([1.0, 1e6, 1e-3, 7.0, 1.0])
    plain = MKFDAClassifier("precomputed", p=1.5, tol=1e-9).fit(X, y)
    scaled = MKFDAClassifier("precomputed", p=1.5, tol=1e-9).fit(X * factors, y)
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=1e-8)
    assert_allclose(scaled.weights_, plain.weights_, rtol=1e-3)


def test_kernels_are_centred_with_training_statistics():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) + y[:, None]
    model = MKFDAClassifier([Linear()], reg=1e-3).fit(X[:40], y[:40])
    mean = X[:40].mean(axis=0)
    train, test = X[:40] - mean, X[40:] - mean
    trace = (train**2).sum()
    alpha = np.linalg.solve(train @ train.T / trace + 1e-3 * np.eye(40), fisher_targets(y[:40], 2))
    assert_allclose(model.transform(X[40:]), test @ train.T / trace @ alpha, rtol=1e-8)


def test_sparse_weights_satisfy_the_optimality_conditions():
    K, y = simulate(2, n=60, n_kernels=8)
    problem = problem_of(K, y, 1e-1, 1.0)
    result = solve(problem, tol=1e-9)
    q = problem.quadratic_forms(result.alpha)
    used = result.weights > 0.0
    assert 0 < used.sum() < 8
    assert result.weights.sum() == pytest.approx(1.0)
    assert_allclose(q[used], q.max(), rtol=1e-6)  # kernels in use are equally good …
    assert (q[~used] <= q.max() * (1 + 1e-9)).all()  # … and the others no better


def test_noise_kernels_leave_the_accuracy_at_p_one():
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    X = [rng.normal(size=(240, 3)) + 1.2 * np.eye(3)[y] for _ in range(2)] + [
        rng.normal(size=(240, 3)) for _ in range(8)
    ]
    D = np.stack([((x[:, None] - x) ** 2).sum(axis=-1) for x in X], axis=-1)
    K = np.exp(-D / D.mean(axis=(0, 1)))
    train, test = np.arange(0, 240, 2), np.arange(1, 240, 2)
    scores = []
    for kernels in (K[:, :, :2], K):
        model = MKFDAClassifier("precomputed", p=1.0, reg=1e-1).fit(kernels[np.ix_(train, train)], y[train])
        scores.append(model.score(kernels[np.ix_(test, train)], y[test]))
    assert model.weights_[2:].sum() <= 0.05
    assert scores[0] > 0.6
    assert abs(scores[1] - scores[0]) <= 0.01


def test_prediction_is_the_nearest_centroid_and_scores_agree():
    K, y = simulate(4, n=60)
    X = np.moveaxis(K, 0, -1)
    model = MKFDAClassifier("precomputed", p=2.0, reg=1e-2).fit(X, y)
    Z = model.transform(X)
    centroids = np.stack([Z[y == k].mean(axis=0) for k in range(4)])
    assert_allclose(model.centroids_, centroids, rtol=1e-6, atol=1e-9)
    nearest = ((Z[:, None] - centroids) ** 2).sum(axis=-1).argmin(axis=1)
    assert (model.predict(X) == nearest).all()
    contributions = model.kernel_contributions(X)
    assert_allclose(contributions.sum(axis=1) + model.intercept_, model.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_scores_are_those_of_models_without_the_sample(n_classes, centered, weighted):
    rng = np.random.default_rng(n_classes)
    n, reg = 24, 1e-2
    y = np.sort(np.arange(n) % n_classes)
    X = rng.normal(size=(n, 3)) + y[:, None]
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=-1) / 3.0)
    s = rng.uniform(0.5, 3.0, size=n) if weighted else np.ones(n)

    def centre(matrix, s, rows=None):
        """The kernel, or ``rows`` of kernels to its samples, centred at their weighted mean."""
        rows, mean = matrix if rows is None else rows, matrix @ s / s.sum()
        return rows - (rows @ s / s.sum())[:, None] - mean + mean @ s / s.sum() if centered else rows

    H, roots = fisher_targets(y, n_classes, s), np.sqrt(s)
    system = DenseSystem(DenseStack((roots[:, None] * centre(K, s) * roots)[None]), reg)
    problem = FisherProblem(system, H, LpBall(1.0), s)
    found = problem.leave_one_out(np.ones(1), problem.solve_inner(np.ones(1))[1], centered=centered)
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        kept, weight, labels = K[np.ix_(rest, rest)], s[rest], H[rest]
        if centered:
            labels = labels - np.average(labels, axis=0, weights=weight)
        alpha = np.linalg.solve(centre(kept, weight) + reg * np.diag(1.0 / weight), labels)
        Z, z = centre(kept, weight) @ alpha, centre(kept, weight, K[i, rest][None]) @ alpha
        centroids = [np.average(Z[y[rest] == k], axis=0, weights=weight[y[rest] == k]) for k in range(n_classes)]
        assert_allclose(found[i], -0.5 * ((z - np.stack(centroids)) ** 2).sum(axis=1), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("normalize", [("center", "trace"), ("center", "variance"), None])
@pytest.mark.parametrize("storage", ["dense", "lowrank", "blockwise"])
def test_whole_weights_are_repeated_samples(n_classes, normalize, storage):
    rng = np.random.default_rng(0)
    y = np.arange(30) % n_classes
    X = rng.normal(size=(30, 4)) + y[:, None] * [1.0, 0.5, 0.0, 0.0]
    weight = rng.integers(0, 4, size=30)
    weight[:n_classes] = 1
    make = Linear if storage == "lowrank" else partial(RBF, bandwidth=1.5)
    kernels = [make(columns=columns) for columns in ([0], [1, 2], [2, 3])]
    settings = {"p": 1.5, "reg": 1e-2, "normalize": normalize, "tol": 1e-9}
    memory = 2.5 * 8 * 30**2 if storage == "blockwise" else None
    model = MKFDAClassifier(kernels, memory=memory, **settings).fit(X, y, weight)
    repeated = MKFDAClassifier(kernels, **settings).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert model.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    assert model.dual_gap_ <= 1e-9 * abs(model.objective_)
    assert_allclose(model.weights_, repeated.weights_, rtol=1e-4)
    assert_allclose(model.centroids_, repeated.centroids_, rtol=1e-4, atol=1e-6)
    new = rng.normal(size=(10, 4))
    expected = repeated.decision_function(new)
    assert_allclose(model.decision_function(new), expected, atol=1e-4 * np.abs(expected).max())
    shares = model.kernel_contributions(new).sum(axis=1) + model.intercept_
    assert_allclose(shares, model.decision_function(new), atol=1e-9)


def test_balanced_classes_weigh_the_same():
    K, y = simulate(3)
    X = np.moveaxis(K, 0, -1)
    counts = np.bincount(y)
    model = MKFDAClassifier("precomputed", class_weight="balanced", tol=1e-8).fit(X, y)
    by_hand = MKFDAClassifier("precomputed", tol=1e-8).fit(X, y, len(y) / (3 * counts[y]))
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=1e-7)
    plain = MKFDAClassifier("precomputed", tol=1e-8).fit(X, y)
    assert abs(model.objective_ - plain.objective_) > 1e-3 * abs(plain.objective_)
    for criterion in ("loo", "cv"):
        grid = MKFDAClassifierCV(
            "precomputed", [1.0, 2.0], [1e-3], criterion=criterion, class_weight="balanced", cv=2
        )
        assert (grid.fit(X, y).grid_gaps_ <= 1e-4).all()


def test_a_class_without_weight_is_refused():
    K, y = simulate(3)
    with pytest.raises(ValueError, match="a sample of positive weight"):
        MKFDAClassifier("precomputed").fit(np.moveaxis(K, 0, -1), y, (y != 1).astype(float))


def test_leave_one_out_grid_counts_what_the_models_without_a_sample_get_right():
    K, y = simulate(3, n=30)
    X = np.moveaxis(K, 0, -1)
    grid = MKFDAClassifierCV("precomputed", ps=[np.inf], regs=[1e-3, 1e-2], criterion="loo").fit(X, y)
    for j, reg in enumerate([1e-3, 1e-2]):
        problem = problem_of(K, y, reg, np.inf)
        scores = problem.leave_one_out(np.ones(5), problem.solve_inner(np.ones(5))[1], centered=True)
        assert grid.scores_[0, j] == (scores.argmax(axis=1) == y).mean()


def test_grid_solutions_are_certified_and_get_sparser_as_p_falls():
    K, y = simulate(3, n_kernels=6)
    grid = MKFDAClassifierCV("precomputed", criterion="loo", regs=[1e-4, 1e-2], tol=1e-6).fit(
        np.moveaxis(K, 0, -1), y
    )
    assert grid.grid_gaps_.shape == (1, 12, 2)
    assert (grid.grid_gaps_ <= 1e-6).all()
    for k, reg in enumerate([1e-4, 1e-2]):
        alone = solve(problem_of(K, y, reg, 1.125), tol=1e-9)
        assert_allclose(grid.grid_weights_[0, 4, k], alone.weights, atol=2e-3)
    largest = grid.grid_weights_[0].max(axis=-1) / grid.grid_weights_[0].sum(axis=-1)
    assert (np.diff(largest, axis=0) <= 1e-3).all()


def test_an_indefinite_kernel_is_solved_without_its_negative_part():
    K = np.diag([2.0, 1.0, -0.5])
    factor = CholeskyFactor(K, 0.1)
    right = np.ones((3, 1))
    clipped = np.diag(np.maximum(np.diag(K), 0.0)) + 0.1 * np.eye(3)
    assert_allclose(factor.solve(right), np.linalg.solve(clipped, right))
    assert_allclose(factor.inverse_diagonal(), 1.0 / np.diag(clipped))
    assert_allclose(factor.whiten(right).T @ factor.whiten(right), right.T @ np.linalg.solve(clipped, right))


def test_single_precision_kernels_are_solved_at_the_smallest_regularisation():
    K, y = simulate(3, n=60)
    single = np.moveaxis(K, 0, -1).astype(np.float32)
    model = MKFDAClassifier("precomputed", p=2.0, reg=1e-8, tol=1e-3).fit(single, y)
    double = MKFDAClassifier("precomputed", p=2.0, reg=1e-8, tol=1e-3).fit(np.moveaxis(K, 0, -1), y)
    assert_allclose(model.weights_, double.weights_, atol=0.05)


def test_a_fit_cut_short_warns_and_can_go_on():
    K, y = simulate(3)
    X = np.moveaxis(K, 0, -1)
    model = MKFDAClassifier("precomputed", reg=1e-3, max_iter=1, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(max_iter=50).fit(X, y)
    assert model.converged_
