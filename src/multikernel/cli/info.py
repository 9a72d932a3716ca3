"""``multikernel info``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from multikernel.compare.results import finite


def run_info(options: argparse.Namespace) -> int:
    """Describe a model, a data file, or the installation."""
    from multikernel.io.tables.formats import READERS

    if options.file is None:
        facts = _installation()
    elif Path(options.file).suffix.lower() in READERS:
        facts = _data(options.file)
    else:
        facts = _model(options.file)
    if options.json:
        print(json.dumps(finite(facts), indent=1, allow_nan=False, ensure_ascii=False))
    else:
        print(_text(facts))
    return 0


def _installation() -> dict[str, Any]:
    import multikernel.estimators  # noqa: F401 (methods register themselves)
    from multikernel.cli.task import family_names
    from multikernel.estimators.registry import available
    from multikernel.io.versions import all_versions

    return {
        "versions": all_versions(),
        "methods": {name: method.title for name, method in available().items()},
        "kernels": ", ".join(family_names()),
    }


def _data(path: str) -> dict[str, Any]:
    from multikernel.io.tables import read_table

    table = read_table(path)
    blocks = {}
    for name, block in table.blocks.items():
        if block.dtype.kind in "OUS":
            values = np.unique(block.astype(str))
            examples = ", ".join(values[:4]) + (" …" if len(values) > 4 else "")
            blocks[name] = f"text {block.shape}, {len(values)} values: {examples}"
        elif block.dtype.kind not in "biuf" or not block.size:
            blocks[name] = f"{block.dtype} {block.shape}"
        else:
            missing = int((~np.isfinite(block)).sum()) if block.dtype.kind == "f" else 0
            low, high = (np.nanmin(block), np.nanmax(block)) if missing < block.size else (np.nan, np.nan)
            lack = f", {missing} missing" if missing else ""
            blocks[name] = f"{block.dtype} {block.shape}, from {low:g} to {high:g}{lack}"
    return {"file": path, "arrays" if table.is_archive else "columns": blocks}


def _model(path: str) -> dict[str, Any]:
    from multikernel.cli.models import steps_of_model
    from multikernel.compare.trial import relative_gap, weight_shares
    from multikernel.io.models import load, read_manifest

    manifest = read_manifest(path)
    *transformers, model = steps_of_model(load(path))
    names, shares = manifest["metadata"].get("kernel_names") or list(model.kernel_names_), weight_shares(model)
    facts: dict[str, Any] = {
        "file": path,
        "class": ", ".join(type(step).__name__ for step in (*transformers, model)),
        "format": manifest["format"],
        "written by": manifest["versions"],
        "parameters": {
            k: v if isinstance(v, (int, float, str, type(None))) else repr(v)
            for k, v in model.get_params(deep=False).items()
            if k != "kernels"
        },
        **({"classes": [str(label) for label in model.classes_]} if hasattr(model, "classes_") else {}),
        "relative gap": relative_gap(model),
        "share of each kernel": dict(zip(names, shares)),
    }
    facts.update({key: value for key, value in manifest["metadata"].items() if value})
    return facts


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
