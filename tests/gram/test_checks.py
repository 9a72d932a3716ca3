"""Bad kernels get an error that says what, where, how much and what to do."""

import warnings

import numpy as np
import pytest

from multikernel.gram import DenseStack, gram_stack, precomputed_stack
from multikernel.gram.checks import check_test_stack, check_training_stack


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


def make_test_stack(rows, columns, n_kernels=2, value=0.5, names=None):
    return precomputed_stack(np.full((rows, columns, n_kernels), value), names, symmetric=False)


def check(stack, names=("a", "b"), largest=1.0, unit=False):
    n = len(names)
    return check_test_stack(stack, 6, names, np.full(n, largest), np.full(n, unit))


def test_a_test_kernel_must_match_the_training_kernel():
    assert check(make_test_stack(4, 6)).shape == (4, 6, 2)
    with pytest.raises(ValueError, match="has 3 kernels, but the model was trained on 2"):
        check(make_test_stack(4, 6, 3))
    with pytest.raises(ValueError, match="has 5 columns, but the model was trained on 6"):
        check(make_test_stack(4, 5))
    with pytest.raises(ValueError, match="looks transposed"):
        check(make_test_stack(6, 4))
    broken = np.full((4, 6, 2), 0.5)
    broken[1, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r'kernels\[1\] \("b"\) has entries that are NaN'):
        check(precomputed_stack(broken, symmetric=False))


def test_named_kernels_are_matched_by_name():
    K = np.stack([np.full((4, 6), 1.0), np.full((4, 6), 2.0)], axis=-1)
    swapped = check(precomputed_stack(K, ["b", "a"], symmetric=False), largest=5.0)
    assert swapped.names == ("a", "b")
    assert (swapped.rows([0])[:, 0, 0] == [2.0, 1.0]).all()
    with pytest.raises(ValueError, match=r"missing: \['a'\]"):
        check(precomputed_stack(K, ["b", "c"], symmetric=False))
    assert check(precomputed_stack(K, symmetric=False), largest=5.0).names == ("K0", "K1")


def test_a_test_kernel_on_another_scale_is_suspected():
    stack = make_test_stack(4, 6, 1, value=1e6)
    with pytest.warns(UserWarning, match="scaled or normalised differently"):
        check(stack, ("a",))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(stack, ("a",), largest=1e6)
    with pytest.raises(ValueError, match="no entry can exceed"):
        check(make_test_stack(4, 6, 1, value=1.5), ("a",), unit=True)


def test_some_samples_of_a_checked_stack_are_checked_but_not_other_columns_of_them():
    matrix = make_kernel(4)
    stack = check_training_stack(DenseStack(matrix[None]))
    some = np.array([0, 2])
    assert stack.take(some, some).checked == "raise"
    with pytest.raises(ValueError, match="not symmetric"):
        check_training_stack(stack.take(some, np.array([1, 3])))
