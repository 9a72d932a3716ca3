"""The order in which the gallery shows the examples: what most readers look for comes first."""

from __future__ import annotations

ORDER = (
    "which_kernels_matter.py",
    "copies_of_a_view.py",
    "pathways.py",
    "multi_omics.py",
    "flights.py",
    "image_descriptors.py",
    "photographs.py",
    "choosing_t.py",
    "regression.py",
    "many_labels.py",
    "online_learning.py",
    "out_of_memory.py",
    "custom_kernel.py",
    "feature_widths.py",
    "certificates.py",
)


class ExampleOrder:
    """Sort key of sphinx-gallery: known files in the order above, new ones behind them by name."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        return (ORDER.index(filename) if filename in ORDER else len(ORDER), filename)
