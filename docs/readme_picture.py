"""Make the README's picture: every kernel alone beside all kernels together, on the embedded digits.

    python docs/readme_picture.py

The figures are those of ``make demo``: 30 % of the digits held out, columns scaled and C chosen on the others. Writes
docs/_static/digits.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from multikernel.compare import compare
from multikernel.datasets import load_digits_quadrants

BLUE, GREY = "#2f5fd0", "#aab4c5"


def main() -> None:
    digits = load_digits_quadrants()
    found = compare(digits.X, digits.y, digits.kernels, methods=["average"], test_size=0.3, inner_cv=2)
    names, alone = zip(*((kernel.name, 100 * kernel.score) for kernel in found.kernels))
    together = 100 * found.methods[0].score
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=(1, 2.6), layout="constrained")
    left.imshow(_whole(digits), cmap="gray_r")
    left.axhline(3.5, color=BLUE)
    left.axvline(3.5, color=BLUE)
    left.set(xticks=[], yticks=[], title="one digit, four views")
    right.barh([*names, "all twelve, averaged"], [*alone, together], color=[*[GREY] * len(names), BLUE])
    for row, value in enumerate([*alone, together]):
        right.text(value + 0.6, row, f"{value:.1f} %", va="center", fontsize=8)
    right.invert_yaxis()
    right.set(xlim=(0, 110), title="each kernel alone, and together")
    right.set_xlabel("accuracy on digits held out (%)")
    right.tick_params(labelsize=8)
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parent / "_static" / "digits.png", dpi=150)
    print(f"best kernel alone {max(alone):.1f} %, together {together:.1f} %")


def _whole(digits) -> np.ndarray:
    """The first digit, put together again from its quadrants."""
    blocks = [digits.X[0, columns].reshape(4, 4) for columns in digits.views.values()]
    return np.block([[blocks[0], blocks[1]], [blocks[2], blocks[3]]])


if __name__ == "__main__":
    main()
