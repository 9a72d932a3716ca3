"""What tables and pages say about a run: quick, interrupted, on stand-in data, on how many cores."""

from __future__ import annotations

from multikernel_experiments.results import Results

STAND_IN = (
    "Stand-in data, not the paper's: small sets that come with scikit-learn, in the layout of the real archives. "
    "The figures show that everything runs; verdicts on claims say nothing about the papers."
)
QUICK = "Quick run: fewer splits, settings and grid points than the protocol asks for."
INTERRUPTED = "Interrupted: figures are those of the fits that were finished; the same command goes on."


def remarks(results: Results) -> list[str]:
    """Sentences that belong above the tables."""
    texts = []
    if results.stand_in:
        texts.append(STAND_IN)
    if results.quick:
        texts.append(QUICK)
    if results.interrupted:
        texts.append(f"{INTERRUPTED} {len(results.cells)} of {results.total} cells.")
    elif len(results.cells) < results.total:
        texts.append(f"Not complete: {len(results.cells)} of {results.total} cells.")
    return texts


def about_times(results: Results) -> str:
    """How many cores the times of fits are of."""
    cores = sorted(results.cores())
    if not cores:
        return ""
    words = " or ".join("one" if count == 1 else str(count) for count in cores)
    return f"Times are those of fits on {words} core{'s' if cores[-1] > 1 else ''}."
