"""Normalisation is fitted on training kernels and applied to test kernels with training statistics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multikernel import KernelAverageClassifier
from multikernel.gram import BlockwiseStack, DenseStack, LazyStack, LowRankStack, gram_stack, precomputed_stack
from multikernel.gram.normalization import Normalization
from multikernel.io.models import load, save
from multikernel.kernels import RBF, Cosine, KernelFamily, Linear

CHAINS = ["center", "cosine", "trace", "variance", ["center", "cosine"], ["cosine", "center", "trace"]]


def make_data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)) + 1.0, rng.normal(size=(11, 4)) + 0.5


def explicit_features(chain, train, test):
    """The same steps on explicit features of the linear kernel, where they are obvious."""
    for step in [chain] if isinstance(chain, str) else chain:
        if step == "center":
            train, test = train - train.mean(axis=0), test - train.mean(axis=0)
        elif step == "cosine":
            train = train / np.linalg.norm(train, axis=1, keepdims=True)
            test = test / np.linalg.norm(test, axis=1, keepdims=True)
        else:
            squares = (train**2).sum()
            if step == "variance":
                squares = ((train - train.mean(axis=0)) ** 2).sum() / len(train)
            train, test = train / np.sqrt(squares), test / np.sqrt(squares)
    return train, test


def make_stacks(storage, train, test):
    family = KernelFamily.fit([Linear(), RBF()] if storage != "low-rank" else [Linear(), Cosine()], train)
    if storage == "lazy":
        return LazyStack(family, train, memory=0), LazyStack(family, test, train, memory=0)
    if storage == "low-rank":
        return LowRankStack.from_family(family, train), LowRankStack.from_family(family, test, train)
    outer = family.evaluate(test, train)
    memory = 1 if storage == "too large" else None
    return (
        DenseStack(family.evaluate(train), memory=memory),
        DenseStack(outer, symmetric=False, self_similarity=family.diagonal(test), memory=memory),
    )


@pytest.mark.parametrize("storage", ["dense", "lazy", "low-rank", "too large"])
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_kernels_are_normalised_as_their_features_would_be(chain, storage):
    train, test = make_data()
    inner, outer = make_stacks(storage, train, test)
    normalization = Normalization(chain)
    square = normalization.fit_apply(inner)
    rectangular = normalization.apply(outer)
    A, B = explicit_features(chain, train, test)
    assert_allclose(square.rows(np.arange(30))[0], A @ A.T, atol=1e-12)
    assert_allclose(rectangular.rows(np.arange(11))[0], B @ A.T, atol=1e-12)
    assert_allclose(square.diagonal()[0], (A**2).sum(axis=1), atol=1e-12)
    assert_allclose(rectangular.diagonal()[0], (B**2).sum(axis=1), atol=1e-12)


def test_a_training_stack_is_left_as_it_was():
    train, _ = make_data()
    K = KernelFamily.fit([Linear()], train).evaluate(train)
    before = K.copy()
    Normalization(["center", "trace"]).fit_apply(DenseStack(K))
    assert_array_equal(K, before)


def test_single_precision_is_kept():
    train, _ = make_data()
    stack = gram_stack(train.astype(np.float32), [RBF(), RBF(bandwidth="4*mean")])
    assert Normalization(["center", "cosine"]).fit_apply(stack).dtype == np.float32


def test_kernels_can_be_normalised_each_in_its_own_way():
    train, _ = make_data()
    K = KernelFamily.fit([Linear(), RBF(), Linear()], train).evaluate(train)
    stack = DenseStack(K, names=["a", "b", "c"])
    result = Normalization({"a": ["center", "trace"], "*": "cosine"}).fit_apply(stack)
    assert_allclose(result.rows(np.arange(30))[0].sum(axis=1), 0.0, atol=1e-12)
    assert_allclose(result.diagonal()[0].sum(), 1.0)
    assert_allclose(result.diagonal()[1:], 1.0)
    only = Normalization({"c": "trace"}).fit_apply(stack)
    assert_array_equal(only.rows(np.arange(30))[:2], K[:2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("chain", CHAINS, ids=str)
def test_constant_and_zero_kernels_stay_finite(chain, dtype):
    arrays = np.stack([np.zeros((9, 9)), np.full((9, 9), 0.3), 1e6 * np.eye(9)]).astype(dtype)
    result = Normalization(chain).fit_apply(DenseStack(arrays)).rows(np.arange(9))
    assert np.isfinite(result).all()
    assert_array_equal(result[0], 0.0)
    if "center" in np.atleast_1d(chain):
        assert np.abs(result[1]).max() < 1e-6
        if np.atleast_1d(chain)[-1] in ("trace", "cosine"):
            assert_array_equal(result[1], 0.0)


def test_a_kernel_a_million_times_larger_comes_out_right(data_home):
    archive = np.load(data_home / "yale_kernels.npz")
    stack = precomputed_stack(np.moveaxis(archive["K"], 0, -1))
    sizes = stack.diagonal().mean(axis=1)
    assert sizes.max() / np.median(sizes) > 1e5
    for chain, expected in (("cosine", 1.0), (["center", "trace"], 1.0 / len(stack)), ("trace", 1.0 / len(stack))):
        normalised = Normalization(chain).fit_apply(stack)
        assert_allclose(normalised.diagonal().mean(axis=1), expected)
    # by itself the large kernel is the whole average; normalised, all five count
    model = KernelAverageClassifier("precomputed", C=10.0, normalize="cosine").fit(stack, archive["y"])
    parts = model.kernel_contributions(
        DenseStack(stack.to_array(), symmetric=False, self_similarity=stack.diagonal())
    )
    shares = np.abs(parts).sum(axis=(0, 2)) / np.abs(parts).sum()
    assert shares.max() < 0.5
    raw = KernelAverageClassifier("precomputed", C=10.0).fit(stack, archive["y"])
    parts = np.abs(raw.kernel_contributions(stack)).sum(axis=(0, 2))
    assert parts.max() > 0.99 * parts.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_variance_of_kernels_computed_when_read_is_that_of_a_sample_with_its_error(monkeypatch, weighted):
    monkeypatch.setattr("multikernel.gram.normalization.MANY", 1500)
    monkeypatch.setattr("multikernel.gram.normalization.GROUP", 50)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 4))
    weight = rng.uniform(size=1500) if weighted else None
    family = KernelFamily.fit([RBF(), RBF(bandwidth="4*mean"), Linear()], X)
    lazy, exact, sampled = LazyStack(family, X, memory=0), Normalization("variance"), Normalization("variance")
    exact.fit_apply(DenseStack(family.evaluate(X)), weight)
    read, evaluate = [], KernelFamily.evaluate

    def counted(self, *arguments, **options):
        block = evaluate(self, *arguments, **options)
        read.append(block[0].size)
        return block

    monkeypatch.setattr(KernelFamily, "evaluate", counted)
    sampled.fit_apply(lazy, weight)
    assert sum(read) == 5 * 50 * 1500  # of 1500 * 1500 pairs
    (statistics,), (expected,) = sampled.statistics_, exact.statistics_
    assert "error" not in expected
    assert (statistics["error"] <= 0.005).all()
    relative = np.abs((expected["factor"] / statistics["factor"]) ** 2 - 1.0)
    assert (relative <= 4.0 * statistics["error"]).all()


def test_a_variance_that_no_sample_tells_is_computed_from_all_pairs(monkeypatch):
    monkeypatch.setattr("multikernel.gram.normalization.MANY", 60)
    monkeypatch.setattr("multikernel.gram.normalization.GROUP", 5)
    X = np.random.default_rng(0).normal(size=(60, 2))
    normalization = Normalization("variance")
    normalization.fit_apply(LazyStack(KernelFamily.fit([Linear()], X), X, memory=0))
    assert "error" not in normalization.statistics_[0]
    assert_allclose(normalization.statistics_[0]["factor"] ** -2, X.var(axis=0).sum())


def test_a_model_with_a_sampled_variance_is_saved_and_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr("multikernel.gram.normalization.MANY", 100)
    monkeypatch.setattr("multikernel.gram.normalization.GROUP", 20)
    monkeypatch.setattr("multikernel.gram.normalization.ERROR", 0.5)
    X = np.random.default_rng(0).normal(size=(100, 3))
    model = KernelAverageClassifier([RBF()], normalize="variance", memory="10kB").fit(X, X[:, 0] > 0)
    assert "error" in model._normalization.statistics_[0]
    save(model, tmp_path / "model.mkl")
    assert_array_equal(load(tmp_path / "model.mkl").decision_function(X), model.decision_function(X))


@pytest.fixture
def lazy_parts():
    """A lazy stack, factors for it, and the list of blocks that it computes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    stack = LazyStack(KernelFamily.fit([Linear(), RBF()], X), X, memory=0)
    evaluate, asked = KernelFamily.evaluate, []

    def counted(self, X, Z=None, **options):
        block = evaluate(self, X, Z, **options)
        asked.append(block.shape[1:])
        return block

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelFamily, "evaluate", counted)
        yield stack, rng.uniform(0.5, 2.0, (2, 30)), asked


def test_columns_of_scaled_kernels_are_all_that_is_computed(lazy_parts):
    stack, factors, asked = lazy_parts
    dense = DenseStack(stack.to_array()).scaled(factors, factors)
    scaled = BlockwiseStack(stack).scaled(factors, factors)
    alpha = np.zeros((30, 3))
    alpha[[4, 9, 21]] = 1.0
    asked.clear()
    assert_allclose(scaled.apply(alpha), dense.apply(alpha))
    assert sum(b * c for b, c in asked) == 30 * 3
    some = scaled.take(rows=[1, 2], columns=[7, 3, 5], kernels=[1])
    assert_allclose(some.to_array(), dense.take(rows=[1, 2], columns=[7, 3, 5], kernels=[1]).to_array())
    twice = some.scaled(np.full((1, 2), 2.0), np.full((1, 3), 3.0)).take(columns=[1])
    assert_allclose(twice.to_array(), 6.0 * dense.take([1, 2], [3], [1]).to_array())


def test_the_diagonal_of_scaled_kernels_is_known_without_their_rows(lazy_parts):
    stack, factors, asked = lazy_parts
    expected = np.einsum("fii->fi", DenseStack(stack.to_array()).scaled(factors, factors).to_array())
    asked.clear()
    scaled = BlockwiseStack(stack).scaled(factors, factors)
    assert_allclose(scaled.diagonal(), expected)
    assert_allclose(scaled.diagonal(), expected)  # the factors were not applied to what is kept
    assert asked == []


def test_columns_of_centred_kernels_see_all_columns(lazy_parts):
    stack, _, _ = lazy_parts
    K = stack.to_array()
    means, grand = K.mean(axis=1), K.mean(axis=(1, 2))
    chosen = np.array([True, True])
    dense = DenseStack(K).centered(means, grand, chosen)
    centred = BlockwiseStack(stack).centered(means, grand, chosen)
    assert_allclose(centred.take(columns=[3, 1]).to_array(), dense.to_array()[:, :, [3, 1]], atol=1e-12)
    assert_allclose(centred.diagonal(), np.einsum("fii->fi", dense.to_array()), atol=1e-12)
