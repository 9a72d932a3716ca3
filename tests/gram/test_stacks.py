"""Every storage of Gram matrices gives the answers of plain arrays."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from multikernel.gram import (
    BlockwiseStack,
    DenseStack,
    KernelRows,
    LazyStack,
    LowRankStack,
    RowCache,
    gram_stack,
    parse_memory,
    precomputed_stack,
)
from multikernel.kernels import RBF, Cosine, KernelFamily, Linear

N_SAMPLES, N_KERNELS = 37, 3
STORAGES = ["dense", "dense32", "view", "memmap", "lazy", "lazy-cached", "low-rank", "blockwise"]


def make_data():
    return np.random.default_rng(0).normal(size=(N_SAMPLES, 5))


def make_family(X, kernels=None):
    return KernelFamily.fit(kernels or [Linear(), RBF(), RBF(bandwidth="4*mean")], X)


@pytest.fixture(params=STORAGES)
def stack(request, tmp_path):
    X = make_data()
    family = make_family(X)
    dense = family.evaluate(X)
    if request.param == "dense":
        return DenseStack(dense)
    if request.param == "dense32":
        return DenseStack(dense.astype(np.float32))
    if request.param == "view":
        order = np.random.default_rng(1).permutation(N_SAMPLES)
        shuffled = np.ascontiguousarray(dense[:, order][:, :, order])
        back = np.argsort(order)
        return DenseStack(shuffled)[np.ix_(back, back)]
    if request.param == "memmap":
        np.save(tmp_path / "K.npy", dense)
        return DenseStack(np.load(tmp_path / "K.npy", mmap_mode="r"))
    if request.param == "lazy":
        return LazyStack(family, X, memory=0)
    if request.param == "lazy-cached":
        return LazyStack(family, X, memory=N_KERNELS * N_SAMPLES * 8 * 10)
    if request.param == "low-rank":
        return LowRankStack.from_family(make_family(X, [Linear(), Cosine(), Linear(columns=[0, 2])]), X)
    return BlockwiseStack(LazyStack(family, X, memory=0)).scaled(
        *2 * [np.random.default_rng(2).uniform(0.5, 2.0, size=(N_KERNELS, N_SAMPLES))]
    )


def tolerance(stack):
    return {"rtol": 1e-5, "atol": 1e-5} if stack.dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-11}


def arrays(stack):
    return np.asarray(stack.rows(np.arange(len(stack))), dtype=np.float64)


SPARSE = np.where(np.arange(N_SAMPLES) % 7 == 0, 1.5, 0.0)
DENSE = np.random.default_rng(3).normal(size=N_SAMPLES)
MANY = np.random.default_rng(4).normal(size=(N_SAMPLES, 4))
MANY_SPARSE = MANY * (SPARSE > 0)[:, None]


@pytest.mark.parametrize("weights", [[0.2, 0.3, 0.5], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
def test_combine_is_the_weighted_sum(stack, weights):
    assert_allclose(stack.combine(weights), np.einsum("f,fij->ij", weights, arrays(stack)), **tolerance(stack))
    assert stack.combine(weights).dtype == stack.dtype


@pytest.mark.parametrize("alpha", [SPARSE, DENSE, MANY, MANY_SPARSE, 0 * DENSE], ids=lambda a: str(a.shape))
def test_apply_multiplies_every_kernel(stack, alpha):
    assert_allclose(stack.apply(alpha), arrays(stack) @ alpha, **tolerance(stack))


@pytest.mark.parametrize("alpha", [SPARSE, DENSE, MANY, MANY_SPARSE, 0 * DENSE], ids=lambda a: str(a.shape))
def test_quadratic_forms_follow_their_definition(stack, alpha):
    expected = np.einsum("i...,fij,j...->f...", alpha, arrays(stack), alpha)
    assert_allclose(stack.quadratic_forms(alpha), expected, **tolerance(stack))


@pytest.mark.parametrize("n_support", [N_SAMPLES, 20, 5, 0])
def test_forms_are_summed_over_columns(stack, n_support):
    rng = np.random.default_rng(3)
    alpha = np.zeros((N_SAMPLES, 4))
    alpha[rng.permutation(N_SAMPLES)[:n_support]] = rng.normal(size=(n_support, 4))
    expected = np.einsum("fij,ir,jr->f", arrays(stack), alpha, alpha)
    assert_allclose(stack.summed_forms(alpha), expected, **tolerance(stack))


def test_diagonal_is_the_diagonal(stack):
    assert_allclose(stack.diagonal(), np.diagonal(arrays(stack), axis1=1, axis2=2), **tolerance(stack))


@pytest.mark.parametrize("alpha", [DENSE, SPARSE])
def test_rows_columns_and_kernels_can_be_taken_and_used(stack, alpha):
    rows, columns, kernels = np.array([5, 1, 30, 1]), np.array([0, 7, 14, 21, 2]), np.array([2, 0])
    cut = stack.take(rows, columns, kernels)
    expected = arrays(stack)[np.ix_(kernels, rows, columns)]
    assert cut.shape == (4, 5, 2)
    assert cut.names == (stack.names[2], stack.names[0])
    assert_allclose(cut.rows([0, 1, 2, 3]), expected, **tolerance(stack))
    assert_allclose(cut.combine([0.5, 2.0]), np.einsum("f,fij->ij", [0.5, 2.0], expected), **tolerance(stack))
    assert_allclose(cut.apply(alpha[:5]), expected @ alpha[:5], **tolerance(stack))
    assert_allclose(cut.take(rows=[3, 0]).rows([0, 1]), expected[:, [3, 0]], **tolerance(stack))
    with pytest.raises(ValueError, match="needs a square stack"):
        cut.quadratic_forms(alpha[:5])


def test_a_stack_is_sliced_as_scikit_learn_slices_arrays(stack):
    train, test = np.arange(0, 30), np.arange(30, N_SAMPLES)
    inner, outer = stack[np.ix_(train, train)], stack[np.ix_(test, train)]
    assert inner.symmetric
    assert not outer.symmetric
    assert (len(inner), inner.shape, outer.shape) == (30, (30, 30, 3), (7, 30, 3))
    assert_allclose(arrays(outer), arrays(stack)[:, 30:, :30], **tolerance(stack))
    alpha = DENSE[:30]
    expected = np.einsum("i,fij,j->f", alpha, arrays(stack)[:, :30, :30], alpha)
    assert_allclose(inner.quadratic_forms(alpha), expected, **tolerance(stack))
    assert_allclose(outer.diagonal(), stack.diagonal()[:, 30:], **tolerance(stack))
    mask = np.arange(N_SAMPLES) < 30
    assert stack[mask].shape == (30, N_SAMPLES, 3)
    assert stack[2:5].shape == (3, N_SAMPLES, 3)


def test_a_slice_of_a_slice_composes(stack):
    outer = stack[np.ix_([3, 8, 20], np.arange(10, 30))][np.ix_([2, 0], [5, 6])]
    assert_allclose(arrays(outer), arrays(stack)[:, [20, 3]][:, :, [15, 16]], **tolerance(stack))


def test_stacks_survive_pickling(stack):
    again = pickle.loads(pickle.dumps(stack))
    assert_array_equal(arrays(again), arrays(stack))


def test_wrong_sizes_are_named(stack):
    with pytest.raises(ValueError, match=r"weights have shape \(2,\), but the stack has 3 kernels"):
        stack.combine([1.0, 2.0])
    with pytest.raises(ValueError, match="alpha has shape"):
        stack.apply(np.ones(5))


def test_lazy_rows_come_from_the_cache_once_they_are_known(monkeypatch):
    X = make_data()
    family = make_family(X)
    stack = LazyStack(family, X, memory=N_KERNELS * N_SAMPLES * 8 * 10)
    first = stack.rows([4, 2])
    calls = []
    monkeypatch.setattr(KernelFamily, "evaluate", lambda *a, **k: calls.append(a))
    assert_array_equal(stack.rows([2, 4]), first[:, ::-1])
    assert_array_equal(stack.take(rows=[4]).rows([0]), first[:, :1])
    assert calls == []


def test_cache_never_exceeds_its_bytes_and_scans_still_hit():
    X = make_data()
    stack = LazyStack(make_family(X), X, memory=N_KERNELS * N_SAMPLES * 8 * 10)
    for _ in range(3):
        stack.apply(DENSE)
    assert (stack._cache.slot >= 0).sum() == 10
    assert stack._cache.rows.nbytes <= N_KERNELS * N_SAMPLES * 8 * 10


def test_precomputed_arrays_are_used_without_copying():
    K = make_family(make_data()).evaluate(make_data())
    assert np.shares_memory(precomputed_stack(np.moveaxis(K, 0, -1))._array, K)
    single = precomputed_stack(K[0])
    assert single.shape == (N_SAMPLES, N_SAMPLES, 1)
    assert np.shares_memory(single._array, K)
    rows_first = np.ascontiguousarray(np.moveaxis(K, 0, -1))
    assert_array_equal(precomputed_stack(rows_first)._array, K)
    assert precomputed_stack(K.astype(np.float32)[0]).dtype == np.float32
    assert precomputed_stack(np.eye(3, dtype=int)).dtype == np.float64


def test_lists_and_dicts_of_matrices_become_stacks():
    stack = gram_stack({"rna": np.eye(3), "protein": np.ones((3, 3))})
    assert stack.names == ("rna", "protein")
    with pytest.raises(ValueError, match=r"kernels\[1\] has shape \(4, 4\), but kernels\[0\] has \(3, 3\)"):
        gram_stack([np.eye(3), np.eye(4)])
    with pytest.raises(ValueError, match="empty list"):
        gram_stack([])


class Tensor:
    """What torch's tensors have that matters here: they may carry gradients, and then refuse to become arrays."""

    def __init__(self, array, attached=True):
        self.array, self.attached, self.ndim = array, attached, array.ndim

    def detach(self):
        return Tensor(self.array, attached=False)

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        assert not self.attached
        return self.array if dtype is None else self.array.astype(dtype)


class Generator:
    """Kernels one at a time, as the generators of MKLpy make them."""

    def __init__(self, matrices):
        self.matrices, self.made = matrices, 0

    def __iter__(self):
        self.made = 0
        return self

    def __next__(self):
        if self.made == len(self.matrices):
            raise StopIteration
        self.made += 1
        return Tensor(self.matrices[self.made - 1])


def test_tensors_and_generators_of_kernels_become_stacks():
    matrices = [np.eye(4), np.ones((4, 4)), np.diag([1.0, 2.0, 3.0, 4.0])]
    for kernels in ([Tensor(K) for K in matrices], Generator(matrices), (K for K in matrices), map(Tensor, matrices)):
        assert_array_equal(gram_stack(kernels).to_array(), matrices)
    assert_array_equal(gram_stack(Tensor(matrices[2])).to_array(), matrices[2:])
    with pytest.raises(ValueError, match=r"kernels\[1\] has shape \(3, 3\), but kernels\[0\] has \(4, 4\)"):
        gram_stack(iter([np.eye(4), np.eye(3)]))
    with pytest.raises(ValueError, match="empty list"):
        gram_stack(iter([]))


def test_tensors_of_torch_become_stacks():
    torch = pytest.importorskip("torch")
    K = torch.eye(3, dtype=torch.float64, requires_grad=True)
    assert_array_equal(gram_stack([K, 2.0 * K]).to_array(), [np.eye(3), 2.0 * np.eye(3)])


def test_the_budget_decides_the_storage():
    X = make_data()
    kernels = [RBF(), RBF(bandwidth="4*mean")]
    dense_bytes = 2 * N_SAMPLES**2 * 8
    assert isinstance(gram_stack(X, kernels, memory=dense_bytes), DenseStack)
    assert isinstance(gram_stack(X, kernels, memory=dense_bytes - 1), LazyStack)
    assert isinstance(gram_stack(X, [Linear()], memory=dense_bytes - 1), LowRankStack)
    assert gram_stack(X.astype(np.float32), kernels).dtype == np.float32


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2GB", 2 << 30), ("1.5 MB", 3 << 19), ("10kb", 10240), (1000, 1000), ("7", 7), ("3G", 3 << 30)],
)
def test_memory_is_read_as_people_write_it(text, expected):
    assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["lots", "-1GB", "0", 0, "2XB"])
def test_memory_that_is_no_size_is_an_error(text):
    with pytest.raises(ValueError, match="memory="):
        parse_memory(text)


def test_a_row_cache_drops_what_came_first_but_for_rows_to_keep():
    K = np.random.default_rng(0).normal(size=(2, 9, 9))
    cache = RowCache((9, 9, 2), K.dtype, n_bytes=0, fewest=4)
    for rows, keep in (([0, 1, 2], ()), ([3, 4], (0,)), ([5, 2], (4,)), ([7, 8], (5, 2))):
        cache.store(np.array(rows), K[:, rows], keep)
        held = np.flatnonzero(cache.slot >= 0)
        assert set(rows) | set(keep) <= set(held.tolist())
        assert len(held) <= 4
        assert_allclose(cache.fetch(held), K[:, held])


def test_rows_for_compiled_loops_are_those_of_the_stack_whatever_its_order_of_kernels():
    K = np.random.default_rng(0).normal(size=(3, 6, 6))
    stack = DenseStack(K)
    assert stack.whole() is K
    assert KernelRows(stack, memory=0).rows is K
    turned = stack.take(kernels=[2, 0, 1])
    assert turned.whole() is None
    assert_allclose(KernelRows(turned, memory=1 << 20).rows, K[[2, 0, 1]])
    few = KernelRows(turned, memory=0)
    few.load(np.array([4]))
    assert not few.complete
    assert_allclose(few.fetch(np.array([4])), K[[2, 0, 1]][:, [4]])
