"""Bad kernels get an error that says what, where, how much and what to do."""

import warnings

import numpy as np
import pytest

from multikernel.gram import gram_stack, precomputed_stack
from multikernel.gram.checks import check_test_stack


def make_kernel(n=12, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return (X @ X.T).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 40, 400])
def test_good_kernels_pass(dtype, n):
    assert gram_stack(make_kernel(n, dtype=dtype)).shape == (n, n, 1)


def test_constant_zero_and_singular_kernels_are_good():
    assert gram_stack([np.zeros((5, 5)), np.ones((5, 5)), 1e12 * np.ones((5, 5))]).n_kernels == 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_bad_entry_is_named(value):
    K = make_kernel()
    K[3, 7] = K[7, 3] = value
    with pytest.raises(
        ValueError, match=r'kernels\[1\] \("K1"\) has 2 entries that are NaN or infinite.*row 3, column 7'
    ):
        gram_stack([make_kernel(), K])
    K = make_kernel()
    K[2, 2] = value
    with pytest.raises(ValueError, match="row 2, column 2"):
        gram_stack(K)


def test_asymmetry_is_located():
    K = make_kernel()
    K[2, 9] += 0.5
    with pytest.raises(ValueError, match=r"not symmetric: entries \[2, 9\] and \[9, 2\] differ by 0.5"):
        gram_stack(K)


def test_an_indefinite_kernel_is_told_with_its_eigenvalues():
    K = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=r"smallest eigenvalue is -1 \(largest 3\)[^$]*psd=\"clip\""):
        gram_stack(K)
    assert gram_stack(K, psd="ignore").n_kernels == 1


def test_indefiniteness_that_no_pair_shows_is_found():
    K = np.eye(3) + 0.9 * np.array([[0, 1, -1], [1, 0, 1], [-1, 1, 0]])
    assert np.linalg.eigvalsh(K)[0] < -0.5
    with pytest.raises(ValueError, match="not positive semi-definite"):
        gram_stack(K)


def test_kernels_first_is_recognised():
    with pytest.raises(ValueError, match=r"looks like \(F, n, n\): pass np.moveaxis"):
        gram_stack(np.stack([make_kernel()] * 3))


@pytest.mark.parametrize("bad", [np.ones((3, 4)), np.ones(3), np.ones((2, 2, 2, 2))])
def test_wrong_shapes_are_errors(bad):
    with pytest.raises(ValueError, match=r"shape|square"):
        gram_stack(bad)


def test_text_is_not_a_kernel():
    with pytest.raises(TypeError, match="not numbers"):
        gram_stack(np.array([["a", "b"], ["c", "d"]]))


def test_a_test_kernel_must_match_the_training_kernel():
    names, largest = ("a", "b"), np.ones(2)
    make = lambda rows, columns, F=2: precomputed_stack(np.full((rows, columns, F), 0.5), symmetric=False)  # noqa: E731
    assert check_test_stack(make(4, 6), 6, names, largest).shape == (4, 6, 2)
    with pytest.raises(ValueError, match="has 3 kernels, but the model was trained on 2"):
        check_test_stack(make(4, 6, 3), 6, names, largest)
    with pytest.raises(ValueError, match="has 5 columns, but the model was trained on 6"):
        check_test_stack(make(4, 5), 6, names, largest)
    with pytest.raises(ValueError, match="looks transposed"):
        check_test_stack(make(6, 4), 6, names, largest)
    broken = np.full((4, 6, 2), 0.5)
    broken[1, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r'kernels\[1\] \("b"\) has entries that are NaN'):
        check_test_stack(precomputed_stack(broken, symmetric=False), 6, names, largest)


def test_a_test_kernel_on_another_scale_is_suspected():
    stack = precomputed_stack(np.full((4, 6, 1), 1e6), symmetric=False)
    with pytest.warns(UserWarning, match="scaled or normalised in another way"):
        check_test_stack(stack, 6, ("a",), np.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_test_stack(stack, 6, ("a",), np.full(1, 1e6))
