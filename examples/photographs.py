"""
What each cue sees in a photograph
==================================

Four kinds of images differ in colour or in texture, so that no single cue is enough. A pipeline goes from images to
predictions, and the weights say which cues tell the kinds apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from skimage.color import rgb2hsv
from skimage.feature import local_binary_pattern
from sklearn.model_selection import train_test_split
from sklearn.pipeline import FeatureUnion, make_pipeline

from multikernel import MKLClassifier
from multikernel.images import PHOG, ColorHistogram, LocalBinaryPatterns, VisualWords
from multikernel.images.local import sift
from multikernel.kernels import ChiSquared


def picture(kind: int, rng: np.random.Generator, side: int = 64) -> np.ndarray:
    """Red or green bars (0, 1), red or green checks (2, 3), at a random place, with noise."""
    rows, columns = np.mgrid[:side, :side] + rng.integers(0, 16, (2, 1, 1))
    cells = columns // 6 % 2 if kind < 2 else (columns // 6 + rows // 6) % 2
    colour = np.roll([0.8, 0.25, 0.2], kind % 2) * rng.uniform(0.8, 1.2)
    light = 0.5 + 0.4 * cells[..., None] + rng.normal(0, 0.03, (side, side, 1))
    return np.clip(colour * light, 0, 1)


rng = np.random.default_rng(0)
y = np.arange(120) % 4
images = np.array([picture(kind, rng) for kind in y])
train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)

# %%
# Cues are transformers: arrays or paths in, histograms out. Each gets a χ² kernel on its own columns. The families of
# the papers, :func:`~multikernel.images.visual_kernels`, are made in the same way.
cues = {"colour": ColorHistogram(), "gradients": PHOG(grid=4), "patterns": LocalBinaryPatterns()}
cues["SIFT words"] = VisualWords(n_words=40, random_state=0)
starts = np.cumsum([0, *(cue.n_columns for cue in cues.values())])
kernels = [ChiSquared(columns=slice(a, b), name=name) for name, a, b in zip(cues, starts, starts[1:])]
model = make_pipeline(FeatureUnion(list(cues.items())), MKLClassifier(kernels, C=10.0)).fit(images[train], y[train])
print(f"all cues: {model.score(images[test], y[test]):.0%} of the test images")
print({name: round(float(weight), 3) for name, weight in zip(cues, model[-1].weights_)})

# %%
# What the cues see: hues, directions of gradients, patterns of eight neighbours, and the word nearest to each patch.
words, titles = model[0].transformer_list[-1][1].words_, ["image", "hue", *list(cues)[1:]]
figure, axes = plt.subplots(4, 5, figsize=(9, 7.4), layout="constrained")
for k, (row, image) in enumerate(zip(axes, images[:4])):
    local = sift(image.astype(np.float32), step=1, sides=(6,)).vectors
    nearest = ((words**2).sum(axis=1) / 2 - local @ words.T).argmin(axis=1).reshape(image.shape[:2])
    light = image.mean(axis=2)
    patterns = local_binary_pattern((255 * light).astype(np.uint8), 8, 1, "nri_uniform")
    seen = [image, rgb2hsv(image)[..., 0], np.arctan2(*np.gradient(light)), patterns, nearest]
    for axis, title, values, colours in zip(row, titles, seen, (None, "hsv", "twilight", "viridis", "tab20")):
        axis.imshow(values, cmap=colours, vmin=0 if title == "hue" else None, vmax=1 if title == "hue" else None)
        axis.set(xticks=[], yticks=[], title=title if k == 0 else None)
plt.show()
