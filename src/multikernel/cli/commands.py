"""What each command does: compare, fit, predict, info."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shlex
import sys
import warnings
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from multikernel import MKLRegressor, SVRGMKLRegressor
from multikernel.cli.blocks import BlockTask, answers, cluster, compare_blocks, in_blocks
from multikernel.cli.parser import UsageError, known_names, refuse
from multikernel.cli.progress import ProgressBar
from multikernel.cli.task import FAMILIES, CommandTask, begin, check_outputs, say, say_left_out
from multikernel.compare import Comparison, compare
from multikernel.compare.results import finite
from multikernel.compare.stacks import make_scaler
from multikernel.compare.table import text_table
from multikernel.compare.trial import relative_gap
from multikernel.compare.tuning import METRICS, Choice, candidates, choose, configured, inner_folds, n_fits, r_squared
from multikernel.estimators.registry import Method, available
from multikernel.gram import DenseStack, gram_stack, precomputed_stack
from multikernel.inspection.displays import last_step
from multikernel.inspection.results import kernel_table
from multikernel.inspection.stability import weight_shares
from multikernel.io.files import DataError, atomic_write, write_text
from multikernel.io.image_folders import read_images
from multikernel.io.models import load, read_manifest, save
from multikernel.io.tables import Table, read_dataset, read_features, read_table, read_tables, read_test_kernels
from multikernel.io.tables.dataset import known_labels
from multikernel.io.tables.formats import READERS
from multikernel.io.tables.precomputed import self_similarities
from multikernel.io.versions import all_versions
from multikernel.kernels.sources import ParquetSource
from multikernel.metrics import kernel_metrics
from multikernel.report import Pictures, write_report


def run_compare(options: argparse.Namespace) -> int:
    """Compare, print the table, write the page; 130 if interrupted, 1 if no method could be fitted."""
    methods = None if options.methods is None else known_names(options.methods, list(available()), "method")
    if in_blocks(options):
        return _finish(compare_blocks(options), options)
    task = begin(options)
    how, shared = task.preparation, ("inner_cv", "scoring", "class_weight", "max_time", "memory", "psd", "missing")
    splits = None if task.data is None else task.data.splits
    name, _, description = task.summary.partition(": ")
    test_size = options.test_size
    if options.cv is None and test_size is None and len(task.y) > 1000:  # cross-validation of so many is slow
        test_size = 0.3
    with ProgressBar(options.quiet, "comparing") as progress:
        comparison = compare(
            task.X,
            task.y,
            how.kernels,
            methods=methods,
            cv=splits or options.cv or 5,
            test_size=test_size,
            grid={"C": options.C} if options.C else None,
            single_kernels=not options.no_single,
            importance=not options.no_importance,
            kernel_names=task.kernel_names,
            label_names=task.classes,
            random_state=options.seed,
            scale=how.scale,
            normalize=how.normalize,
            progress=progress,
            **{name: getattr(options, name) for name in shared},
            data=name,
            description=description,
            command=shlex.join(["multikernel", *options.command_line]),
        )
    return _finish(comparison, options, Pictures(task.X, task.y) if task.images else None)


def _finish(comparison: Comparison, options: argparse.Namespace, pictures: Pictures | None = None) -> int:
    """Print and write what was found, if anything was."""
    anything = comparison.best() is not None
    if anything or not comparison.interrupted:
        grey = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print(text_table(comparison, grey=grey), flush=True)
        for remark in comparison.remarks:
            say(options, f"remark: {remark}")
    if anything:
        write_report(comparison, options.output, pictures)
        if options.json:
            text = json.dumps(comparison.to_dict(), indent=1, allow_nan=False, ensure_ascii=False)
            write_text(options.json, text + "\n")
        say(options, f"report: {options.output}")
    if comparison.interrupted:
        kept = "what was finished is in the report" if anything else "nothing was finished, nothing was written"
        print(f"multikernel: interrupted; {kept}", file=sys.stderr)
        return 130
    if not anything:
        reason = "no method could be fitted, for the reasons above; no report was written"
        print(f"multikernel: error: {reason}", file=sys.stderr)
    return 0 if anything else 1


def run_fit(options: argparse.Namespace) -> int:
    """Choose parameters, fit on all samples, write the model."""
    if not (options.data or options.images):
        raise UsageError("there is nothing to learn from: give --data FILE or --images FOLDER")
    if in_blocks(options):
        return _fit_blocks(options)
    method = _method(options)
    task, cues = begin(options), None
    if task.images:  # descriptors take their place
        cues = make_scaler(task.preparation.scale)
        with ProgressBar(options.quiet, "describing images"):
            X = cues.fit_transform(task.X)
        cues.set_params(**{f"{name}__memory": None for name, _ in cues.transformer_list})  # this machine's folder
        task = replace(task, X=X, preparation=replace(task.preparation, scale=None))
    how = task.preparation
    choice = _tuned(method, task, options)
    if choice.score is not None:
        shown = ", ".join(f"{name}={value:g}" for name, value in choice.parameters.items())
        percent = f"{options.scoring.replace('_', ' ')} {100 * choice.score:.1f} %"
        score = f"R² {choice.score:.3f}" if options.regression else percent
        say(options, f"{shown} chosen by {options.inner_cv}-fold validation ({score})")
    given = {name: getattr(how, name) for name in ("psd", "missing", "memory", "normalize")}
    given["probability"] = options.proba or None
    fixed = {name: value for name, value in given.items() if value is not None}
    estimator: Any = method.make(how.kernels, **fixed, **choice.parameters)
    scaler = make_scaler(how.scale)
    model = estimator if scaler is None else Pipeline([("scale", scaler), ("model", estimator)])
    estimator._keep_interrupted = False  # half a model is none to write
    with warnings.catch_warnings(), ProgressBar(options.quiet, f"fitting {method.title}"):
        warnings.filterwarnings("ignore", "columns of kernel", UserWarning)  # remarked on above
        model.fit(task.X, task.y)
    del estimator._keep_interrupted
    whole = model if cues is None else Pipeline([("cues", cues), ("model", model)])
    save(whole, options.output, metadata=_metadata(method, task, options))
    # a square Gram stack of kernels knows k(x, x) of the training samples, an array does not
    known = precomputed_stack(task.X) if how.precomputed else task.X
    score = _success(model.predict(known), task.y, options.regression)
    say(options, f"{method.title} fitted on {len(task.y)} samples; on these, {score}")
    say(options, f"model: {options.output}")
    return 0


def _fit_blocks(options: argparse.Namespace) -> int:
    """Fit to blocks of rows, write the model."""
    check_outputs(options)
    task = BlockTask(options)
    method = task.method(options.method if "method" in getattr(options, "given", ()) else "svrg")
    parameters = task.choose(method)
    with cluster(options), ProgressBar(options.quiet, f"fitting {method.title}"):
        model = task.fit(method, parameters)
    assert task.sample.data is not None
    metadata = {
        "method": method.name,
        "data": Path(task.path).name,
        "n_samples": len(task.y),
        "regression": options.regression,
        "target": task.sample.data.target,
        "columns": task.sample.data.feature_names,
        "id": options.id,
        "blocks": True,
    }
    save(model, options.output, metadata=metadata)
    last = last_step(model)
    shown = ", ".join(f"{name}={value:g}" for name, value in parameters.items())
    say(options, f"{method.title} fitted on {len(task.y)} rows ({shown}), relative gap {relative_gap(last):.1e}")
    say(options, f"model: {options.output}")
    return 0


def _predict_blocks(options: argparse.Namespace, model: Any, metadata: dict[str, Any]) -> int:
    """Predict blocks of rows and write them one after the other; what a failure leaves is no file."""
    source = ParquetSource(options.data[0])
    columns, target = metadata["columns"], metadata.get("target")
    lacking = [name for name in columns if name not in source.names]
    if lacking:
        raise DataError(f"{options.data[0]} has no column {lacking[0]!r}, which the model needs")
    named = options.id or metadata.get("id")
    ids = source.column(named) if named in source.names else None
    truth = source.column(target) if target in source.names else None
    done, labels = 0, []
    call = partial(_answers_of, model, options)
    with ExitStack() as stack, cluster(options), ProgressBar(options.quiet, "predicting"):
        out = stack.enter_context(atomic_write(options.output)) if options.output else sys.stdout.buffer
        for block in answers(call, source.with_columns(columns)):
            labels.append(block["prediction"])
            rows = slice(done, done + len(labels[-1]))
            text = _csv({**({} if ids is None else {named: ids[rows]}), **block})
            out.write((text if not done else text.partition("\n")[2]).encode())
            done = rows.stop
    if options.output:
        say(options, f"predictions of {done} samples: {options.output}")
    if truth is not None:
        say(options, _success(np.concatenate(labels), truth, bool(metadata.get("regression"))))
    return 0


def _answers_of(model: Any, options: argparse.Namespace, X: Any) -> dict[str, np.ndarray]:
    return {"prediction": model.predict(X), **_extra_columns(model, X, options)}


_PRICES = {"C": (0.1, 1.0, 10.0, 100.0)}
# ``fit --regression --method``; with ε = 0 no target is too small to matter, whatever its unit.
REGRESSORS = {
    "svrg": Method("svrg-regression", "SVRG-MKL regression", SVRGMKLRegressor, grid=_PRICES),
    "mkl": Method("mkl-regression", "MKL regression, p = 1", MKLRegressor, {"epsilon": 0.0}, _PRICES),
    "mkl-p2": Method("mkl-p2-regression", "MKL regression, p = 2", MKLRegressor, {"epsilon": 0.0, "p": 2.0}, _PRICES),
}


def _method(options: argparse.Namespace) -> Method:
    """The method to fit, with what the options say about it."""
    if options.regression:
        refuse(options, ("scoring", "class_weight", "proba"), "is for classification: leave it out with --regression")
        name = options.method if "method" in getattr(options, "given", ()) else "svrg"
        if name not in REGRESSORS:
            raise UsageError(f"--method {name}: with --regression it is one of {', '.join(REGRESSORS)}")
        method = REGRESSORS[name]
        return configured(method, max_time=options.max_time)
    names = known_names(options.method, list(available()), "method")
    if len(names) > 1:
        raise UsageError(f"--method {options.method}: fit takes one method; use compare to run several")
    method = available()[names[0]]
    return configured(method, options.scoring, class_weight=options.class_weight, max_time=options.max_time)


def _tuned(method: Method, task: CommandTask, options: argparse.Namespace) -> Choice:
    """Parameters chosen by validation on folds of all samples."""
    tried = candidates(method, {"C": options.C} if options.C else None)
    if len(tried) == 1:
        return Choice(tried[0])
    folds = inner_folds(task.y, options.inner_cv, options.seed, regression=options.regression)
    score = r_squared if options.regression else METRICS[options.scoring]
    what, total, done = "choosing parameters", n_fits(method, len(tried), len(folds)) - 1, count(1)
    with ProgressBar(options.quiet, what, total) as progress:
        stack, _ = task.preparation.stacks(task.preparation.checked(task.X), np.arange(len(task.y)))
        return choose(method, tried, stack, task.y, folds, lambda: progress(what, next(done), total), score)


def _metadata(method: Method, task: CommandTask, options: argparse.Namespace) -> dict[str, Any]:
    """What the model file says beside the model, for people and for ``predict``."""
    name, data = task.summary.partition(": ")[0], task.data
    common = {"method": method.name, "data": name, "n_samples": len(task.y), "regression": options.regression}
    if data is None:
        return {**common, "images": True, "labels": task.classes}
    return {
        **common,
        "target": data.target,
        "columns": data.feature_names,
        "kernel_names": task.kernel_names,
        "id": options.id,
        "files": data.files,
        "n_matrices": data.X.shape[2] if data.is_precomputed else None,
    }


def run_predict(options: argparse.Namespace) -> int:
    """Predict, write a csv file or print it, report accuracy where labels are known."""
    check_outputs(options)
    metadata = read_manifest(options.model)["metadata"]
    model = load(options.model)
    wanted = "images" if metadata.get("images") else "data"
    if not getattr(options, wanted) or (options.data and options.images):
        raise UsageError(f"the model was fitted with --{wanted}: give new samples in the same way, and no others")
    if metadata.get("blocks") and in_blocks(options):
        return _predict_blocks(options, model, metadata)
    X, ids, known = (_new_images if wanted == "images" else _new_rows)(options, model, metadata)
    with ProgressBar(options.quiet, "predicting"):
        labels = model.predict(X)
    predicted = {"prediction": labels} if labels.ndim == 1 else dict(zip(metadata["labels"], labels.T))
    text = _csv({**ids, **predicted, **_extra_columns(model, X, options)})
    if options.output:
        write_text(options.output, text)
        say(options, f"predictions of {len(labels)} samples: {options.output}")
    else:
        sys.stdout.write(text)
    if known is not None:
        say(options, _success(labels[known[0]], known[1], bool(metadata.get("regression"))))
    return 0


def _new_rows(options: argparse.Namespace, model: Any, metadata: dict[str, Any]) -> tuple[Any, dict[Any, Any], Any]:
    """New samples in files, columns that name them, and rows and labels of those with a known one."""
    files = metadata.get("files") or []
    if len(options.data) != max(len(files), 1):
        named = f"{len(files)} files ({', '.join(files)})" if files else "one file"
        raise DataError(
            f"the model was fitted on {named}, but --data gives {len(options.data)}: pass as many files, in "
            "the same order"
        )
    id_column, outer = options.id or metadata.get("id"), last_step(model).missing == "mask"
    needs_id = bool(files or options.id)
    table = read_tables(options.data, id_column, names=files or None, needs_id=needs_id, outer=outer)
    X = _new_samples(last_step(model), metadata, table)
    ids = {id_column: table.ids} if table.ids else {}
    target, regression = metadata.get("target"), bool(metadata.get("regression"))
    return X, ids, known_labels(table, target, X.shape[0], regression=regression) if target else None


def _new_images(options: argparse.Namespace, model: Any, metadata: dict[str, Any]) -> tuple[Any, dict[Any, Any], Any]:
    """New images, their paths, and rows and classes of those with a known one."""
    found = read_images(options.images, labelled=False)
    say_left_out(options, found.left_out)
    known = None
    if metadata.get("labels") is None and found.y is not None and np.isin(found.y, model.classes_.astype(str)).all():
        known = (np.arange(len(found.y)), found.y)
    return found.paths, {"path": found.paths}, known


def _success(predicted: np.ndarray, y: np.ndarray, regression: bool) -> str:
    """How good predictions are, in few words."""
    if regression:
        error = np.sqrt(np.mean((predicted - y) ** 2))
        return f"R² {r2_score(y, predicted):.3f}, root mean square error {error:.4g}"
    right = int(np.sum(predicted.astype(str) == y.astype(str)))
    return f"accuracy {100 * right / y.size:.1f} % ({right} of {y.size} {'samples' if y.ndim == 1 else 'labels'})"


def _new_samples(estimator: Any, metadata: dict[str, Any], table: Table) -> Any:
    """What the estimator needs of a table: columns, or kernels between new and training samples."""
    masks = estimator.missing == "mask"
    if not get_tags(estimator).input_tags.pairwise:
        names = metadata.get("columns") or list(getattr(estimator, "feature_names_in_", ()))
        if not names:
            raise DataError(
                "the model does not know the names of its columns: fit it with multikernel fit or on a data frame, "
                'or save it with metadata={"columns": [...]}'
            )
        return read_features(table, list(map(str, names)), masks)[0]
    n_samples = int(metadata.get("n_samples") or estimator.n_features_in_)
    kernels = read_test_kernels(table, metadata.get("n_matrices") or len(estimator.kernel_names_), n_samples, masks)
    if not isinstance(estimator.kernels, str):  # of distances
        return kernels
    n_new, _, n_kernels = kernels.shape
    similarity = self_similarities(table, n_kernels, n_new)
    if similarity is not None:
        array = np.ascontiguousarray(np.moveaxis(kernels, -1, 0))
        return DenseStack(array, list(estimator.kernel_names_), symmetric=False, self_similarity=similarity)
    steps = estimator.normalize
    if any("cosine" in (chain or ()) for chain in (steps.values() if isinstance(steps, Mapping) else [steps])):
        raise DataError(
            f"{table.source}: the model uses cosine normalisation and needs k(x, x) for the new samples. Add an "
            f"array self_similarity of shape ({n_kernels}, {n_new}), or fit with another step, such as trace"
        )
    return kernels


def _extra_columns(model: Any, X: Any, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Decision values and probabilities by class, where they are asked for."""
    columns: dict[str, np.ndarray] = {}
    for asked, function, name in (
        (options.scores, "decision_function", "score"),
        (options.proba, "predict_proba", "probability"),
    ):
        if not asked:
            continue
        if not hasattr(model, function):
            kind = type(last_step(model)).__name__
            regressor = not hasattr(model, "classes_")
            advice = "it predicts numbers" if regressor else "fit with --proba for probabilities"
            raise DataError(f"the model ({kind}) has no {function}: {advice}")
        values = np.asarray(getattr(model, function)(X))
        # two classes have one score: positive values speak for the second
        classes = model.classes_ if values.ndim > 1 else model.classes_[1:]
        columns |= {f"{name}_{label}": column for label, column in zip(classes, np.atleast_2d(values.T))}
    return columns


def _csv(columns: Mapping[Any, Any]) -> str:
    """Columns as csv; floats with all their digits."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(np.asarray(values).tolist() for values in columns.values())))
    return stream.getvalue()


def run_info(options: argparse.Namespace) -> int:
    """Describe a model, a data file, or the installation."""
    is_model = options.file is not None and Path(options.file).suffix.lower() not in READERS
    if options.weights is not None and not is_model:
        raise UsageError("--weights needs a model file")
    check_outputs(options)
    if options.file is None:
        methods = {name: method.title for name, method in available().items()}
        facts = {"versions": all_versions(), "methods": methods, "kernels": ", ".join(FAMILIES)}
    elif not is_model:
        table = read_table(options.file)
        blocks = {name: _block(block) for name, block in table.blocks.items()}
        facts = {"file": options.file, "arrays" if table.is_archive else "columns": blocks}
        facts |= _kernels_in_numbers(options.file) if table.is_archive else {}
    else:
        facts = _model(options.file, options.weights)
    print(json.dumps(finite(facts), indent=1, allow_nan=False, ensure_ascii=False) if options.json else _text(facts))
    return 0


def _kernels_in_numbers(path: str) -> dict[str, Any]:
    """Numbers that describe each precomputed kernel of an archive, if it holds any."""
    try:
        data = read_dataset([path])
        table = kernel_metrics(gram_stack(data.X, psd="ignore"), data.y) if data.is_precomputed else {}
    except ValueError:  # features without labels, say, or kernels between other samples
        return {}
    return {name.replace("_", " "): dict(zip(data.kernel_names, v.tolist())) for name, v in table.items()}


def _block(block: np.ndarray) -> str:
    """What is in a column, or an array."""
    if block.dtype.kind in "OUS":
        values = np.unique(block.astype(str))
        examples = ", ".join(values[:4]) + (" …" if len(values) > 4 else "")
        return f"text {block.shape}, {len(values)} values: {examples}"
    if block.dtype.kind not in "biuf" or not block.size:
        return f"{block.dtype} {block.shape}"
    missing = int((~np.isfinite(block)).sum()) if block.dtype.kind == "f" else 0
    low, high = (np.nanmin(block), np.nanmax(block)) if missing < block.size else (np.nan, np.nan)
    lack = f", {missing} missing" if missing else ""
    return f"{block.dtype} {block.shape}, from {low:g} to {high:g}{lack}"


def _model(path: str, weights: str | None) -> dict[str, Any]:
    """Facts about a model file; its weights are written to another."""
    manifest = read_manifest(path)
    whole, metadata = load(path), manifest["metadata"]
    model, steps = last_step(whole), [step for _, step in getattr(whole, "steps", [("", whole)])]
    names = metadata.get("kernel_names") or model.kernel_names_
    shares = weight_shares(model)
    used = [k for k in np.argsort(-shares, kind="stable") if shares[k] > 0.0]  # of 100,000 kernels few may be
    if weights is not None:
        table = {**kernel_table(model), "kernel": np.asarray(names, dtype=object)}
        write_text(weights, _csv({name: column[used] for name, column in table.items()}))
    return {
        "file": path,
        "class": ", ".join(type(step).__name__ for step in steps),
        "format": manifest["format"],
        "written by": manifest["versions"],
        "parameters": {
            k: v if isinstance(v, (int, float, str, type(None))) else repr(v)
            for k, v in model.get_params(deep=False).items()
            if k != "kernels"
        },
        **({"classes": [str(label) for label in model.classes_]} if hasattr(model, "classes_") else {}),
        "relative gap": relative_gap(model),
        "share of each kernel": {names[k]: float(shares[k]) for k in used},
        **({"kernels without a weight": len(names) - len(used)} if len(used) < len(names) else {}),
        **({"samples without a view": model.n_missing_} if any(model.n_missing_.values()) else {}),
        **{key: value for key, value in metadata.items() if value},
    }


def _text(facts: dict[str, Any]) -> str:
    """Facts as indented lines."""
    lines = []
    for key, value in facts.items():
        if isinstance(value, dict):
            width = max(map(len, map(str, value)), default=0)
            lines.append(f"{key}:")
            lines.extend(f"  {name:<{width}}  {_shown(item)}" for name, item in value.items())
        elif isinstance(value, list):
            some = ", ".join(map(str, value[:12])) + (f" … ({len(value)} in all)" if len(value) > 12 else "")
            lines.append(f"{key}: {some}")
        else:
            lines.append(f"{key}: {_shown(value)}")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
