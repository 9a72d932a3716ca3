"""ObscureClassifier and UFOMKLClassifier as users meet them: scikit-learn's rules, storage, files, streams."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

from multikernel import ObscureClassifier, UFOMKLClassifier, gram_stack
from multikernel.gram.normalization import Normalization
from multikernel.io.models import load, save
from multikernel.kernels import RBF, KernelFamily, Linear, Polynomial
from multikernel.problems.obscure import MulticlassHinge, ObscureProblem
from multikernel.solvers.obscure.obscure import ScoreTable

X, y = load_iris(return_X_y=True)
BINARY_X, BINARY_y = make_classification(80, 6, n_informative=4, flip_y=0.1, random_state=0)
KERNELS = [RBF(columns=[0, 1]), RBF(columns=[2, 3]), Polynomial(degree=2)]
FAST = {"max_iter": 20, "tol": 0.99}
SOLVERS = ["obscure", "obscure-printed", "online", "pegasos", "sdca"]


def quiet(function, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return function(*arguments)


@pytest.mark.parametrize(
    "model",
    [
        *(ObscureClassifier(KERNELS, solver=s, C=10.0, random_state=0) for s in SOLVERS),
        UFOMKLClassifier(KERNELS, C=10.0),
    ],
    ids=[*SOLVERS, "ufo"],
)
def test_objective_and_scores_follow_from_the_stored_attributes(model):
    for data, labels in ((X, y), (BINARY_X, BINARY_y)):
        model = quiet(clone(model).set_params(max_iter=30, tol=1e-3, random_state=0).fit, data, labels)
        K = KernelFamily.fit(KERNELS, data).evaluate(data)
        alpha = np.zeros((len(labels), len(model.dual_coef_)))
        alpha[model.support_] = model.dual_coef_.T
        combined = np.tensordot(model.weights_, K, axes=1)
        scores = combined @ alpha
        assert_allclose(model.decision_function(data), np.squeeze(scores), atol=1e-10)
        assert_array_equal(model.intercept_, 0.0)
        if scores.shape[1] == 1:
            scores, alpha = np.hstack([-scores, scores]) / 2, np.hstack([-alpha, alpha]) / 2
        norms = model.weights_ * np.sqrt([np.trace(alpha.T @ k @ alpha) for k in K])
        p = model.p or 2 * np.log(3) / (2 * np.log(3) - 1)
        own = scores[np.arange(len(labels)), labels]
        margins = 1 + scores - own[:, None]
        margins[np.arange(len(labels)), labels] = 0.0
        value = np.sum(norms**p) ** (2 / p) / (2 * 10.0 * len(labels)) + margins.max(axis=1).mean()
        assert_allclose(model.objective_, value, rtol=1e-9)
        if getattr(model, "solver", None) in ("obscure-printed", "online", "pegasos"):  # the others follow w
            assert_allclose(model.weights_, (norms / np.sum(norms**p) ** (1 / p)) ** (2 - p), rtol=1e-6)
        assert isinstance(model.objective_, float)
        assert model.dual_gap_ >= 0.0


def test_a_stream_goes_on_from_a_file(tmp_path):
    stream = ObscureClassifier(KERNELS).partial_fit(X, y, classes=[0, 1, 2])
    save(stream, tmp_path / "stream.mk")
    again = load(tmp_path / "stream.mk")
    assert_array_equal(again.partial_fit(X, y).decision_function(X), stream.partial_fit(X, y).decision_function(X))


def test_lam_and_C_say_the_same():
    by_C = ObscureClassifier(KERNELS, C=2.0, random_state=0, **FAST).fit(X, y)
    by_lam = ObscureClassifier(KERNELS, lam=1 / (2.0 * 150), random_state=0, **FAST).fit(X, y)
    assert_array_equal(by_C.dual_coef_, by_lam.dual_coef_)


def test_warm_start_goes_on_from_the_previous_solution():
    binary = ObscureClassifier(KERNELS[2:], C=10.0, max_iter=8, tol=1e-9, random_state=0, warm_start=True)
    first = quiet(binary.fit, BINARY_X, BINARY_y).objective_
    assert quiet(binary.fit, BINARY_X, BINARY_y).objective_ <= first * 1.001


def test_costly_mistakes_become_rarer():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 150)
    data = rng.normal(size=(300, 2)) + 0.8 * labels[:, None]
    cost = np.array([[0.0, 5.0], [1.0, 0.0]])
    options = {"solver": "sdca", "C": 0.1}
    plain = ObscureClassifier([RBF()], **options).fit(data, labels).predict(data)
    careful = ObscureClassifier([RBF()], cost=cost, **options).fit(data, labels).predict(data)
    assert np.sum((careful == 1) & (labels == 0)) < np.sum((plain == 1) & (labels == 0))
    with pytest.raises(ValueError, match=r"cost has shape \(2, 2\), but there are 3 classes"):
        ObscureClassifier(KERNELS, cost=cost).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"p": 1.0}, "p=1.0 must be above 1 and at most 2"),
        ({"p": 2.5}, "p=2.5 must be above 1"),
        ({"C": 0.0}, "C=0.0 must be positive"),
        ({"lam": -1.0}, "lam=-1.0 must be positive"),
        ({"eta": 0.0}, "eta=0.0 must be positive"),
        ({"solver": "adam"}, "solver='adam' is not known"),
        ({"budget": 0}, "budget=0 must be at least 1"),
        ({"eviction": "worst"}, "eviction='worst' is not known"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        ObscureClassifier(KERNELS, **parameters).fit(X, y)


# -- streams ---------------------------------------------------------------------------------------------------


def implied_weights(family, support, coef, q):
    K, A = family.evaluate(np.array(support)), np.array(coef)
    norms = np.sqrt([max(np.trace(A.T @ k @ A), 0.0) for k in K])
    return (norms / np.sum(norms**q) ** (1 / q)) ** (q - 2)


def least_missed(family, weights, support, coef):
    """The smallest coefficients; of those that tie, the widest margin by the scores of all others."""
    sizes = [round(float(np.sum(c**2)), 9) for c in coef]
    margins = []
    for i in range(len(support)):
        others = [k for k in range(len(support)) if k != i]
        K = family.evaluate(np.array(support)[i : i + 1], np.array(support)[others])
        scores = np.tensordot(weights, K, axes=1)[0] @ np.array(coef)[others]
        label = int(np.argmax(coef[i]))
        margins.append(scores[label] - np.delete(scores, label).max())
    return min(range(len(support)), key=lambda i: (sizes[i], -margins[i]))


def naive_stream(model, batches, budget=None, eviction="oldest"):
    """The online stage written out: support vectors as a list, every score computed from them."""
    q = model.p / (model.p - 1)
    family = KernelFamily.fit(model.kernels, batches[0][0])
    support, coef, mistakes, updates = [], [], 0, 0
    n_classes = 3
    weights = np.ones(len(model.kernels))
    for data, labels in batches:
        for x, label in zip(data, labels):
            scores = np.zeros((len(weights), n_classes))
            if support:
                scores = family.evaluate(x[None], np.array(support))[:, 0] @ np.array(coef)
            total = weights @ scores / q
            rival = max((r for r in range(n_classes) if r != label), key=lambda r: total[r])
            mistakes += total[rival] >= total[label]
            if 1 + total[rival] - total[label] <= 0:
                continue
            updates += 1
            support.append(x)
            coef.append(model.eta * (np.eye(n_classes)[label] - np.eye(n_classes)[rival]))
            weights = implied_weights(family, support, coef, q)
            if budget is not None and len(support) > budget:
                gone = 0 if eviction == "oldest" else least_missed(family, weights, support, coef)
                del support[gone], coef[gone]
                weights = implied_weights(family, support, coef, q)
    return np.array(support), np.array(coef), weights, mistakes, updates


@pytest.mark.parametrize(("budget", "eviction"), [(None, "oldest"), (15, "oldest"), (15, "smallest")])
def test_partial_fit_is_the_online_stage_on_a_stream(budget, eviction):
    order = np.random.default_rng(0).permutation(150)
    batches = [(X[part], y[part]) for part in np.array_split(order, 4)]
    model = ObscureClassifier(KERNELS, budget=budget, eviction=eviction)
    for k, batch in enumerate(batches):
        model.partial_fit(*batch, **({"classes": [0, 1, 2]} if k == 0 else {}))
    support, coef, weights, mistakes, updates = naive_stream(model, batches, budget, eviction)
    assert model.n_mistakes_ == mistakes
    assert model.n_updates_ == updates
    assert [row["seen"] for row in model.history_] == [38, 76, 113, 150]
    assert_allclose(model.weights_, weights, rtol=1e-6)
    q = model.p / (model.p - 1)
    K = KernelFamily.fit(KERNELS, batches[0][0]).evaluate(X, support)
    assert_allclose(model.decision_function(X), np.tensordot(weights, K, axes=1) @ coef / q, atol=1e-7)
    if budget is not None:
        assert len(model.support_) <= budget
    assert np.isnan(model.objective_)


def test_a_stream_in_one_batch_or_in_many_is_the_same_model():
    kernels = [RBF(bandwidth=1.0), Linear()]
    whole = ObscureClassifier(kernels).partial_fit(X, y, classes=[0, 1, 2])
    parts = ObscureClassifier(kernels)
    for k in range(150):
        parts.partial_fit(X[k : k + 1], y[k : k + 1], classes=[0, 1, 2])
    assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-9)
    assert parts.n_mistakes_ == whole.n_mistakes_


@pytest.mark.parametrize("normalize", [None, "cosine", "variance", ["cosine", "trace"]])
def test_streams_normalise_with_the_statistics_of_the_first_samples(normalize):
    order = np.random.default_rng(0).permutation(150)
    data, labels = X[order], y[order]
    model = ObscureClassifier(KERNELS, normalize=normalize).partial_fit(data, labels, classes=[0, 1, 2])
    stack = Normalization(normalize).fit_apply(gram_stack(data, KERNELS))
    state = ScoreTable(ObscureProblem(stack, MulticlassHinge(labels, 3), 1.0, model.p))
    for _ in range(2):
        state.online(np.arange(150), model.eta)
        scores = np.tensordot(state.weights, state.table, axes=1).T * (model.p - 1) / model.p
        assert_allclose(model.decision_function(data), scores, atol=1e-8)
        model.partial_fit(data, labels)


def test_a_stream_goes_on_from_a_fitted_model():
    for kernels, data, labels in ((KERNELS, X, y), ([RBF(), Linear()], BINARY_X, BINARY_y)):
        model = quiet(ObscureClassifier(kernels, random_state=0, C=10.0, max_iter=50).fit, data, labels)
        stack = gram_stack(data, kernels)
        loss = MulticlassHinge(labels, labels.max() + 1)
        state = ScoreTable(ObscureProblem(stack, loss, 1.0, model.p))
        alpha = np.zeros((len(labels), len(model.dual_coef_)))
        alpha[model.support_] = model.dual_coef_.T
        alpha = np.hstack([-alpha, alpha]) / 2 if alpha.shape[1] == 1 else alpha
        state.set(model.p / (model.p - 1) * alpha)
        state.online(np.arange(len(labels)), model.eta)
        model.partial_fit(data, labels)
        scores = np.tensordot(state.weights, state.table, axes=1).T * (model.p - 1) / model.p
        expected = scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        assert_allclose(model.decision_function(data), expected, atol=1e-7)
        assert model.n_updates_ == state.updates


def test_streams_announce_their_classes_up_front():
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        ObscureClassifier(KERNELS).partial_fit(X, y)
    model = ObscureClassifier(KERNELS).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert set(model.predict(X)) <= {0, 1, 2}
    with pytest.raises(ValueError, match=r"y\[0\] is 7, which is not among the announced classes"):
        model.partial_fit(X[:1], [7])
    with pytest.raises(ValueError, match="new classes cannot be added"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="partial_fit needs features"):
        ObscureClassifier("precomputed").partial_fit(np.eye(3)[:, :, None], [0, 1, 0], classes=[0, 1])
    with pytest.raises(ValueError, match="cannot centre or clip"):
        ObscureClassifier(KERNELS, normalize="center").partial_fit(X, y, classes=[0, 1, 2])
