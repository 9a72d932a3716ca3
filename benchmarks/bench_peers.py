"""The library beside scikit-learn, MKLpy, himalaya and scikit-multimodallearn, on the same kernels and cores.

    python benchmarks/bench_peers.py [--data NAME ...] [--methods NAME ...] [--limit 120] [--output peers] [--fresh]

Every method runs in a process of its own, with the interpreter of its package: environments with pinned versions are
made in a cache folder at the first run, and a package that cannot be installed is left out with the reason. All get
the same kernel matrices in double precision and the same C. Time is that of one fit from these matrices to a model
(the quickest of several; processor time in brackets), memory the peak beyond what the process held before. Results
are kept one by one in OUTPUT/results.json, so that a run can be stopped and taken up again; --fresh forgets them.
OUTPUT also gets the table in Markdown and a plot.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.environments import Unavailable, python_of
from peers.methods import METHODS
from peers.problems import PROBLEMS, Absent, write
from peers.report import picture, table

WORKER = Path(__file__).parent / "peers" / "worker.py"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def run(name: str, folder: Path, limit: float, cores: int) -> dict:
    """Run a method on a problem; a row of figures, or one that says why there are none."""
    try:
        python = python_of(METHODS[name].environment)
    except Unavailable as error:
        return {"skipped": f"not installed: {error}"}
    environment = {**os.environ, **dict.fromkeys(THREADS, str(cores)), "PEERS_CORES": str(cores)}
    command = [str(python), str(WORKER), name, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"skipped": f"more than {limit:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        reason = lines[-1].removeprefix("NotImplementedError: ") if lines else f"exit code {done.returncode}"
        return {"skipped": reason[:160]}
    return json.loads(done.stdout.splitlines()[-1])


def show(data: str, name: str, row: dict) -> None:
    if "skipped" in row:
        print(f"{data:14s} {name:20s} {row['skipped']}", flush=True)
    else:
        times = f"{row['seconds']:8.3f} s ({row['processor_seconds']:.3f})"
        figures = f"{times} {100 * row['accuracy']:6.1f} % {row['peak'] / 1e6:7.0f} MB"
        print(f"{data:14s} {name:20s} {figures}   {METHODS[name].package} {row['version']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds for a method on a problem, warm-up included"
    )
    parser.add_argument("--cores", type=int, default=1, help="cores that a method may use")
    parser.add_argument("--output", type=Path, default=Path("peers"))
    parser.add_argument("--fresh", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that no method goes on by itself
    options.output.mkdir(parents=True, exist_ok=True)
    kept = options.output / "results.json"
    results = json.loads(kept.read_text()) if kept.is_file() and not options.fresh else {}
    with tempfile.TemporaryDirectory() as scratch:
        for data in options.data:
            rows = results.setdefault(data, {})
            for name in [name for name in options.methods if name not in rows]:
                try:
                    folder = write(data, Path(scratch))
                except Absent as error:
                    print(f"{data}: left out, {error}", file=sys.stderr)
                    break
                rows[name] = run(name, folder, options.limit, options.cores)
                kept.write_text(json.dumps(results, indent=1))
                show(data, name, rows[name])
    (options.output / "table.md").write_text(table(results), encoding="utf-8")
    picture(results, options.output / "peers.svg")
    print(f"table and picture are in {options.output}")


if __name__ == "__main__":
    main()
