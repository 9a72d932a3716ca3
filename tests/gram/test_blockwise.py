"""Kernels that are normalised while they are read: what they compute, and that it is no more than was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from multikernel.gram import BlockwiseStack, DenseStack, LazyStack
from multikernel.kernels import RBF, KernelFamily, Linear


@pytest.fixture
def parts():
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


def test_columns_of_scaled_kernels_are_all_that_is_computed(parts):
    stack, factors, asked = parts
    dense = DenseStack(stack.to_array()).scaled(factors, factors)
    scaled = BlockwiseStack(stack).scaled(factors, factors)
    alpha = np.zeros((30, 3))
    alpha[[4, 9, 21]] = 1.0
    asked.clear()
    np.testing.assert_allclose(scaled.apply(alpha), dense.apply(alpha))
    assert sum(b * c for b, c in asked) == 30 * 3
    some = scaled.take(rows=[1, 2], columns=[7, 3, 5], kernels=[1])
    np.testing.assert_allclose(some.to_array(), dense.take(rows=[1, 2], columns=[7, 3, 5], kernels=[1]).to_array())
    twice = some.scaled(np.full((1, 2), 2.0), np.full((1, 3), 3.0)).take(columns=[1])
    np.testing.assert_allclose(twice.to_array(), 6.0 * dense.take([1, 2], [3], [1]).to_array())


def test_the_diagonal_of_scaled_kernels_is_known_without_their_rows(parts):
    stack, factors, asked = parts
    expected = np.einsum("fii->fi", DenseStack(stack.to_array()).scaled(factors, factors).to_array())
    asked.clear()
    scaled = BlockwiseStack(stack).scaled(factors, factors)
    np.testing.assert_allclose(scaled.diagonal(), expected)
    np.testing.assert_allclose(scaled.diagonal(), expected)  # the factors were not applied to what is kept
    assert asked == []


def test_columns_of_centred_kernels_see_all_columns(parts):
    stack, _, _ = parts
    K = stack.to_array()
    means, grand = K.mean(axis=1), K.mean(axis=(1, 2))
    chosen = np.array([True, True])
    dense = DenseStack(K).centered(means, grand, chosen)
    centred = BlockwiseStack(stack).centered(means, grand, chosen)
    np.testing.assert_allclose(centred.take(columns=[3, 1]).to_array(), dense.to_array()[:, :, [3, 1]], atol=1e-12)
    np.testing.assert_allclose(centred.diagonal(), np.einsum("fii->fi", dense.to_array()), atol=1e-12)
