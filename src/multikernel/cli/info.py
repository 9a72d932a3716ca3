"""``multikernel info``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.cli.models import steps_of_model
from multikernel.cli.task import FAMILIES
from multikernel.compare.results import finite
from multikernel.compare.trial import relative_gap, weight_shares
from multikernel.estimators.registry import available
from multikernel.io.models import load, read_manifest
from multikernel.io.tables import read_table
from multikernel.io.tables.formats import READERS
from multikernel.io.versions import all_versions


def run_info(options: argparse.Namespace) -> int:
    """Describe a model, a data file, or the installation."""
    if options.file is None:
        methods = {name: method.title for name, method in available().items()}
        facts = {"versions": all_versions(), "methods": methods, "kernels": ", ".join(FAMILIES)}
    elif Path(options.file).suffix.lower() in READERS:
        table = read_table(options.file)
        blocks = {name: _block(block) for name, block in table.blocks.items()}
        facts = {"file": options.file, "arrays" if table.is_archive else "columns": blocks}
    else:
        facts = _model(options.file)
    print(json.dumps(finite(facts), indent=1, allow_nan=False, ensure_ascii=False) if options.json else _text(facts))
    return 0


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


def _model(path: str) -> dict[str, Any]:
    manifest = read_manifest(path)
    steps = steps_of_model(load(path))
    model, metadata = steps[-1], manifest["metadata"]
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
        "share of each kernel": dict(zip(metadata.get("kernel_names") or model.kernel_names_, weight_shares(model))),
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
