"""Sections of the page that show the samples themselves, where these are images."""

from __future__ import annotations

import base64
import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from multikernel.compare.results import Comparison
from multikernel.images import read_image
from multikernel.report.markup import Html, el, section

SIDE = 96
OF_A_CLASS, MOST_CLASSES = 6, 30
PAIRS, OF_A_PAIR = 6, 6


@dataclass(frozen=True)
class Pictures:
    """Images of a comparison: their paths, and their labels, shape (n,) or (n, L) of 0 and 1."""

    paths: Any
    y: np.ndarray

    def members(self, comparison: Comparison, k: int) -> np.ndarray:
        """Images of class, or with label, number k."""
        return np.flatnonzero(self.y[:, k] if self.y.ndim > 1 else self.y.astype(str) == comparison.classes[k])

    def strip(self, rows: Iterable[int]) -> Html:
        """A row of pictures."""
        return el("div", [self._picture(row) for row in rows], class_="strip")

    def _picture(self, row: int) -> Html:
        from PIL import Image

        stream = io.BytesIO()
        levels = np.rint(255 * read_image(self.paths[row], SIDE)).astype(np.uint8)
        Image.fromarray(levels).save(stream, "JPEG", quality=80)
        data = base64.b64encode(stream.getvalue()).decode()
        name = str(self.paths[row]) if isinstance(self.paths[row], str) else f"image {row}"
        return el("img", src=f"data:image/jpeg;base64,{data}", alt=name, title=name, loading="lazy")


def examples_section(comparison: Comparison, pictures: Pictures) -> Html:
    """Some images of each class."""
    rows = []
    for k, name in enumerate(comparison.classes[:MOST_CLASSES]):
        members = pictures.members(comparison, k)
        chosen = members[np.unique(np.linspace(0, len(members) - 1, OF_A_CLASS).astype(int))] if len(members) else []
        rows.append(el("div", el("b", name), el("span", f"{len(members)} images"), pictures.strip(chosen)))
    more = len(comparison.classes) - len(rows)
    note = el("p", f"And {more} more classes.", class_="note") if more else None
    return section("Images", el("div", rows, class_="pictures"), note)


def confused_section(comparison: Comparison, pictures: Pictures) -> Html | None:
    """Images that the best method takes for another class, of the pairs of classes that are confused most."""
    best = comparison.best()
    if best is None or not best.mistakes:
        return None
    names = np.unique(pictures.y).tolist()
    pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row, taken in best.mistakes:
        pairs[names.index(pictures.y[row].item()), taken].append(row)
    worst = sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0]))[:PAIRS]
    shown = []
    for (true, taken), rows in worst:
        count = f"{len(rows)} of {sum(best.confusion[true])} test images"
        right = np.setdiff1d(pictures.members(comparison, taken), [row for row, _ in best.mistakes])[: OF_A_PAIR // 2]
        title = [el("b", f"{comparison.classes[true]} taken for {comparison.classes[taken]}"), el("span", count)]
        against = [el("span", f"{comparison.classes[taken]}:"), pictures.strip(right)] if len(right) else None
        shown.append(el("div", title, pictures.strip(rows[:OF_A_PAIR]), against))
    caption = (
        f"Test images that {best.title} takes for another class, of the pairs confused most, each above images of "
        "the class that it chose."
    )
    return section("Most confused", el("div", shown, class_="pictures"), el("p", caption, class_="note"))
