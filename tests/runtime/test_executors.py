"""Executors: sums in order, errors, and workers of a cluster that may be killed."""

import gc
import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV

from multikernel import MKFDAClassifier, SVRGMKLClassifier
from multikernel.kernels import RBF, Nystroem
from multikernel.runtime.executors import DaskExecutor, Executor, executor_for

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(2000, 6))
Y = X[:, 0] * X[:, 1] + 0.3 * RANDOM.normal(size=len(X)) > 0
KERNELS = [Nystroem(kernel=RBF(), rank=20, columns=[2 * k, 2 * k + 1]) for k in range(3)]


def halves(block, by):
    return np.full(3, block / by), np.array(1.0)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_add_up_what_one_thread_does(n_threads):
    sums, count = Executor(n_threads).total(halves, [1.0, 2.0, 5.0], 2.0)
    assert_allclose(sums, np.full(3, 4.0))
    assert count == 3.0


def test_unknown_executors_and_schedulers_are_named():
    with pytest.raises(TypeError, match=r"executor=3 is no distributed\.Client"):
        executor_for(3)
    pytest.importorskip("distributed")
    with pytest.raises(ConnectionError, match=r"scheduler at tcp://127\.0\.0\.1:1 cannot be reached"):
        executor_for("tcp://127.0.0.1:1")


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def alone():
    return SVRGMKLClassifier(KERNELS, C=1.0, tol=1e-8, executor="threads").fit(X, Y)


def assert_same(model, other):
    assert_allclose(model.objective_, other.objective_, rtol=1e-6)
    assert_allclose(model.weights_, other.weights_, atol=1e-4)


def test_a_cluster_gives_the_same_model(client, alone):
    da = pytest.importorskip("dask.array")
    model = SVRGMKLClassifier(KERNELS, C=1.0, tol=1e-8, executor=client).fit(da.from_array(X, chunks=(300, 6)), Y)
    assert_same(model, alone)
    lazy = model.decision_function(da.from_array(X, chunks=(300, 6)))
    assert_allclose(lazy.compute(), alone.decision_function(X), atol=1e-4)


def test_arrays_that_the_cluster_holds_are_read_there(client, alone):
    da = pytest.importorskip("dask.array")
    held = da.from_array(X, chunks=(300, 6)).persist()
    for executor in (client, "threads"):
        assert_same(SVRGMKLClassifier(KERNELS, C=1.0, tol=1e-8, executor=executor).fit(held, Y), alone)


def test_an_address_leaves_no_client_behind(client, alone):
    from distributed import default_client

    address = client.scheduler.address
    assert_same(SVRGMKLClassifier(KERNELS, C=1.0, tol=1e-8, executor=address).fit(X, Y), alone)
    gc.collect()
    assert default_client() is client
    others = client.run_on_scheduler(
        lambda dask_scheduler: sum(name.startswith("Client-") for name in dask_scheduler.clients)
    )
    assert others == 1


def test_a_fit_inside_a_task_waits_for_no_other_task(client):
    fits = client.map(_score_of, [0.1, 1.0, 10.0])
    assert min(client.gather(fits)) > 0.7
    with joblib.parallel_config("dask"):
        search = GridSearchCV(SVRGMKLClassifier(KERNELS), {"C": [0.1, 1.0]}, cv=2).fit(X, Y)
    assert search.best_score_ > 0.7


def _score_of(C):
    return SVRGMKLClassifier(KERNELS, C=C).fit(X, Y).score(X, Y)


def test_discriminants_take_an_executor(client):
    here, there = (
        MKFDAClassifier(KERNELS, executor=e).fit(np.tile(X, (11, 1)), np.tile(Y, 11)) for e in ("serial", client)
    )
    assert_same(here, there)
    assert here._on_features


def test_the_active_client_is_used(client):
    assert isinstance(executor_for(None), DaskExecutor)
    assert isinstance(executor_for("threads"), Executor)


def test_a_worker_that_is_killed_changes_nothing(client, alone):
    killed = threading.Event()

    def kill(row):
        if not killed.is_set():
            killed.set()
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            time.sleep(0.2)

    model = SVRGMKLClassifier(KERNELS, C=1.0, tol=1e-8, executor=client, callback=kill).fit(X, Y)
    assert killed.is_set()
    assert len(model.history_) > 1
    assert_same(model, alone)
