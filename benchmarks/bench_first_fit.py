"""Seconds of the first fit after installation, and of the first fit of a process.

    python benchmarks/bench_first_fit.py [NAME ...]

Each estimator is fitted with its defaults, classifiers to breast cancer (569 samples), regressors to diabetes (442):
"alone" in a new process on an empty cache of compiled code, "after the others" in a process that has fitted those
above on one empty cache, "with the cache" in another new process, "second" once more in that process. When the clock
starts scikit-learn and the data are there, and of multikernel what ``import multikernel`` loads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time


def estimators() -> list[str]:
    """Those to fit, the one to begin with first."""
    import multikernel

    names = [name for name in multikernel.__all__ if name.endswith(("Classifier", "Regressor"))]
    return sorted(names, key=lambda name: (name != "MKLClassifier", name))


def seconds(names: list[str]) -> list[float]:
    """Seconds of a fit of each, one after the other in this process."""
    from sklearn.datasets import load_breast_cancer, load_diabetes

    import multikernel

    cancer, diabetes = load_breast_cancer(return_X_y=True), load_diabetes(return_X_y=True)
    times = []
    for name in names:
        X, y = diabetes if name.endswith("Regressor") else cancer
        y = y[:, None] if name.startswith("Multilabel") else y
        start = time.perf_counter()
        getattr(multikernel, name)().fit(X, y)
        times.append(time.perf_counter() - start)
    return times


def elsewhere(names: list[str], cache: str) -> list[float]:
    """``seconds`` in a new process with its compiled code in ``cache``."""
    command = [sys.executable, __file__, "--here", *names]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main() -> None:
    names = sys.argv[1:] or estimators()
    if names[0] == "--here":
        print(json.dumps(seconds(names[1:])))
        return
    with tempfile.TemporaryDirectory() as cache:
        following = elsewhere(names, cache)
    print(f"{'':28}{'alone':>10}{'after the others':>18}{'with the cache':>16}{'second':>9}")
    for name, after in zip(names, following):
        with tempfile.TemporaryDirectory() as cache:
            (alone,) = elsewhere([name], cache)
            cached, second = elsewhere([name, name], cache)
        print(f"{name:28}{alone:10.2f}{after:18.2f}{cached:16.2f}{second:9.3f}", flush=True)


if __name__ == "__main__":
    main()
