"""``multikernel fit`` and ``multikernel predict``."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from multikernel.files import DataError

if TYPE_CHECKING:
    from multikernel.cli.task import Task
    from multikernel.tables import Table


def run_fit(options: argparse.Namespace) -> int:
    """Choose parameters, fit on all samples, write the model."""
    import multikernel.estimators  # noqa: F401 (methods register themselves)
    from multikernel.cli.parser import known_names
    from multikernel.cli.task import check_outputs, grid_of, read_task, scale_remark, steps_of
    from multikernel.compare.interruption import Interruption
    from multikernel.compare.tuning import tune
    from multikernel.estimators.registry import available
    from multikernel.persistence import save

    known = available()
    method = known[known_names(options.method, list(known), "method")[0]]
    grid, steps = grid_of(options), steps_of(options)
    check_outputs({"--output": options.output}, {"--data": options.data})
    task = read_task(options)
    say = _remarks(options.quiet)
    say(f"{task.name}: {task.description}")
    if steps is None and not options.quiet and (remark := scale_remark(task)):
        say(remark)
    fixed = {} if steps is None else {"normalize": steps}
    with Interruption() as interruption:
        choice = tune(
            method,
            task.X,
            task.y,
            task.kernels,
            grid=grid,
            inner_cv=options.inner_cv,
            random_state=options.seed,
            normalize=steps,
        )
        interruption.check()
        if choice.score is not None:
            shown = ", ".join(f"{name}={value:g}" for name, value in choice.parameters.items())
            say(f"{shown} chosen by {options.inner_cv}-fold validation (accuracy {100 * choice.score:.1f} %)")
        model = method.make(task.kernels, **fixed, **choice.parameters).fit(task.X, task.y)
        interruption.check()  # a fit that was interrupted returns what it has: not to be kept as a model
    metadata = {
        "method": method.name,
        "data": task.name,
        "target": task.target,
        "columns": task.columns,
        "kernel_names": task.kernel_names,
        "n_samples": len(task.y),
    }
    save(model, options.output, metadata=metadata)
    accuracy = float(np.mean(model.predict(_known_samples(task)) == task.y))
    say(f"{method.title} fitted on {len(task.y)} samples (accuracy on them {100 * accuracy:.1f} %)")
    say(f"model: {options.output}")
    return 0


def run_predict(options: argparse.Namespace) -> int:
    """Predict, write a csv file or print it, report accuracy where labels are known."""
    from multikernel.cli.task import check_outputs
    from multikernel.files import write_text
    from multikernel.persistence import load, read_manifest

    check_outputs({"--output": options.output}, {"MODEL": options.model, "--data": options.data})
    metadata = read_manifest(options.model)["metadata"]
    model = load(options.model)
    X, y = _new_samples(model, metadata, options.data)
    labels = model.predict(X)
    text = _csv(model, X, labels, options.scores)
    say = _remarks(options.quiet)
    if options.output:
        write_text(options.output, text)
        say(f"predictions of {len(labels)} samples: {options.output}")
    else:
        sys.stdout.write(text)
    if y is not None:
        right = int(np.sum(labels.astype(str) == y.astype(str)))
        say(f"accuracy {100 * right / len(y):.1f} % ({right} of {len(y)} samples)")
    return 0


def _known_samples(task: Task) -> Any:
    """The training samples as samples to predict: a square Gram stack of kernels knows k(x, x), an array does not."""
    from multikernel.gram import gram_stack

    return gram_stack(task.X, psd="ignore") if isinstance(task.kernels, str) else task.X


def _remarks(quiet: bool):
    """Print to standard error, or not."""
    return (lambda text: None) if quiet else (lambda text: print(text, file=sys.stderr))


def _new_samples(model: Any, metadata: dict[str, Any], path: str) -> tuple[Any, np.ndarray | None]:
    """What the model needs from a file, and the labels if the file has them."""
    from multikernel.tables import read_features, read_table, read_test_kernels
    from multikernel.tables.dataset import labels_if_present

    if isinstance(model.kernels, str) and model.kernels == "precomputed":
        n_samples = metadata.get("n_samples") or getattr(model, "n_features_in_", None)
        if n_samples is None:
            raise DataError("the model does not say how many samples it was trained on: write it by multikernel fit")
        kernels = read_test_kernels(path, len(model.kernel_names_), int(n_samples))
        table = read_table(path)
        X = _with_self_similarity(kernels, table, model)
    else:
        X, table = read_features(path, _columns(model, metadata))
    target = metadata.get("target")
    return X, labels_if_present(table, target, len(X)) if target else None


def _with_self_similarity(kernels: np.ndarray, table: Table, model: Any) -> Any:
    """Kernels of shape (m, n, F) between new and training samples, with k(x, x) of the new ones if it is known."""
    from multikernel.gram import DenseStack
    from multikernel.tables.precomputed import self_similarities

    n_new, _, n_kernels = kernels.shape
    similarity = self_similarities(table, n_kernels, n_new)
    if similarity is not None:
        array = np.ascontiguousarray(np.moveaxis(kernels, -1, 0))
        return DenseStack(array, list(model.kernel_names_), symmetric=False, self_similarity=similarity)
    steps = model.normalize
    chains = steps.values() if isinstance(steps, Mapping) else [steps]
    if any(chain is not None and "cosine" in ([chain] if isinstance(chain, str) else chain) for chain in chains):
        raise DataError(
            f"{table.source}: the model normalises kernels by cosine and needs k(x, x) of the new samples. Add an "
            f"array self_similarity of shape ({n_kernels}, {n_new}), or fit with another step, such as trace"
        )
    return kernels


def _columns(model: Any, metadata: dict[str, Any]) -> list[str]:
    """Names of the columns that the model was fitted on."""
    names = metadata.get("columns") or getattr(model, "feature_names_in_", None)
    if names is None or len(names) == 0:
        raise DataError(
            "the model does not know the names of its columns: fit it by multikernel fit, on a data frame, "
            'or save it with metadata={"columns": [...]}'
        )
    return [str(name) for name in names]


def _csv(model: Any, X: Any, labels: np.ndarray, with_scores: bool) -> str:
    """Predictions as csv, with decision values if asked for."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if not with_scores:
        writer.writerow(["prediction"])
        writer.writerows([label] for label in labels)
        return stream.getvalue()
    scores = model.decision_function(X)
    if scores.ndim == 1:  # two classes: positive values speak for the second
        scores, names = scores[:, None], [f"score_{model.classes_[1]}"]
    else:
        names = [f"score_{label}" for label in model.classes_]
    writer.writerow(["prediction", *names])
    writer.writerows([label, *map(repr, row)] for label, row in zip(labels, scores.tolist()))
    return stream.getvalue()
