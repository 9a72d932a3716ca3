"""Normalisation is fitted on training kernels and applied to test kernels with training statistics."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multikernel import KernelAverageClassifier
from multikernel.gram import DenseStack, LazyStack, LowRankStack, gram_stack, precomputed_stack
from multikernel.kernels import RBF, Cosine, KernelFamily, Linear
from multikernel.normalization import Normalization

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
