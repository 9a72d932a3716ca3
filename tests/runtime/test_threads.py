"""Threads: results in order, errors raised, no deadlock when nested or after a fork."""

import multiprocessing
import sys

import pytest

from multikernel.runtime.clock import map_threads, over_rows, thread_count


def test_results_come_in_order():
    assert map_threads(lambda a, b: a * b, [(k, k) for k in range(20)], 2) == [k * k for k in range(20)]


def test_errors_reach_the_caller():
    with pytest.raises(ZeroDivisionError):
        map_threads(lambda a: 1 / a, [(1,), (0,), (2,)], 2)


def test_nested_calls_do_not_wait_for_themselves():
    def outer(k):
        return sum(map_threads(lambda j: j + k, [(j,) for j in range(4)], 2))

    assert map_threads(outer, [(k,) for k in range(8)], 2) == [6 + 4 * k for k in range(8)]


@pytest.mark.parametrize("n_rows", [0, 1, 2, 7, 100])
def test_ranges_cover_every_row_once(n_rows):
    seen = []
    over_rows(lambda start, stop: seen.extend(range(start, stop)), n_rows)
    assert sorted(seen) == list(range(n_rows))


def test_the_environment_limits_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert thread_count() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert thread_count() >= 1


def _child(queue):
    queue.put(map_threads(pow, [(2, 3), (3, 2)], 2))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_forked_child_makes_its_own_threads():
    map_threads(pow, [(2, 3), (3, 2)], 2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert queue.get(timeout=20) == [8, 9]
    child.join()
