"""Fitted objects as JSON and arrays, and back: no code is stored, and none is run when reading."""

import functools
import importlib
import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from multikernel.io.files import DataError

# classes that fitted estimators may hold, by module, besides registered estimators and the library's kernels
PARTS = {
    "estimators": ("MKLOneClass", "MKLRegressor", "SVRGMKLRegressor"),
    "gram.normalization": ("Normalization",),
    "images.transformers": ("ColorHistogram", "GaborEnergies", "LocalBinaryPatterns", "PHOG", "VisualWords"),
    "kernels.family": ("KernelFamily",),
    "problems.gmkl": ("ProductOfKernels", "SumOfKernels"),
    "problems.regularizers": ("Entropy", "L1", "SquaredL2"),
}
# parts of scikit-learn whose estimators are arrays and plain values, and may stand before a model in a pipeline
SCIKIT_LEARN = [
    f"sklearn.{part}"
    for part in ("compose", "decomposition", "feature_selection", "impute", "pipeline", "preprocessing")
]


class ModelFileError(DataError):
    """A model cannot be written to a file, or a file is not a model that this version can read."""


def storable_classes(trusted: Iterable[type] = ()) -> dict[str, type]:
    """Classes that a model file may name: the library's own, and those that the caller trusts."""
    from sklearn.gaussian_process import kernels as gaussian

    from multikernel.estimators.registry import available
    from multikernel.kernels import Kernel

    found = [method.estimator for method in available().values()]
    found += [kernel for kernel in _subclasses(Kernel) if kernel.__module__.startswith("multikernel.")]
    for module, names in PARTS.items():
        found += [getattr(importlib.import_module(f"multikernel.{module}"), name) for name in names]
    # those that FromGaussianProcess wraps: parameters and nothing else
    wrapped = {
        f"sklearn.{name}": kind
        for name, kind in vars(gaussian).items()
        if isinstance(kind, type) and issubclass(kind, gaussian.Kernel)
    }
    return wrapped | {kind.__name__: kind for kind in (*found, *trusted)}


def scikit_learn_name(value: Any) -> str | None:
    """Name in a file of one of scikit-learn's classes or functions, such as ``sklearn.impute.SimpleImputer``."""
    folder = ".".join(str(getattr(value, "__module__", "")).split(".")[:2])
    name = f"{folder}.{getattr(value, '__qualname__', '')}"
    return name if scikit_learn_part(name) is value else None


def scikit_learn_part(name: str) -> Any:
    """What a name in a file stands for, if it is public in one of the parts of `SCIKIT_LEARN`; else None."""
    module, _, name = name.rpartition(".")
    if module not in SCIKIT_LEARN:
        return None
    public = importlib.import_module(module)
    return getattr(public, name) if name in public.__all__ else None


def _subclasses(cls: Any) -> Iterable[type]:
    """A class and all that derive from it."""
    yield cls
    for child in cls.__subclasses__():
        yield from _subclasses(child)


class Encoder:
    """Turns objects into JSON values, given the classes whose instances may be stored, by name."""

    def __init__(self, classes: Mapping[str, type]):
        self._names = {cls: name for name, cls in classes.items()}
        self.arrays: list[np.ndarray] = []  # which the JSON refers to by position
        self.objects: list[Any] = []  # the JSON of each instance, once, however often it is referred to
        self._known: dict[int, tuple[Any, Any]] = {}  # id: (object, so that the id stays taken; its JSON)

    def encode(self, value: Any, where: str) -> Any:
        """JSON for ``value``; ``where`` says in messages which attribute this is."""
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if type(value) in (list, tuple):
            items = [self.encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
            return items if type(value) is list else {"$": "tuple", "items": items}
        if type(value) is dict:
            pairs = [[self.encode(k, where), self.encode(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"$": "dict", "items": pairs}
        if isinstance(value, (slice, range)):
            parts = [self.encode(p, where) for p in (value.start, value.stop, value.step)]
            return {"$": type(value).__name__, "items": parts}
        if isinstance(value, os.PathLike):  # such as checkpoint=: another machine may have other kinds of paths
            return os.fspath(value)
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"$": "dtype", "name": np.dtype(value).str, "type": isinstance(value, type)}
        return self._shared(value, where)

    def _shared(self, value: Any, where: str) -> Any:
        """Arrays and instances, which several attributes may share: stored once."""
        if id(value) in self._known:
            encoded = self._known[id(value)][1]
            if encoded is None:
                raise ModelFileError(f"{where} refers back to an object that contains it; this cannot be stored")
            return encoded
        self._known[id(value)] = (value, None)
        if isinstance(value, np.generic):
            encoded = {"$": "scalar", "array": self._array(np.asarray(value))["array"]}
        elif isinstance(value, np.ndarray) and value.dtype.hasobject:  # such as text labels
            items = self.encode(list(value.ravel()), where)
            encoded = {"$": "objects", "shape": list(value.shape), "items": items}
        elif isinstance(value, np.ndarray):
            encoded = self._array(value)
        elif scipy.sparse.issparse(value):
            rows, is_matrix = value.tocsr(), isinstance(value, scipy.sparse.spmatrix)
            parts = [self._array(part) for part in (rows.data, rows.indices, rows.indptr)]
            encoded = {"$": "sparse", "shape": list(value.shape), "matrix": is_matrix, "parts": parts}
        else:
            encoded = self._instance(value, where)
        self._known[id(value)] = (value, encoded)
        return encoded

    def _array(self, value: np.ndarray) -> dict[str, Any]:
        """An array with the order of its axes in memory, on which the last bits of a product may depend."""
        order = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
        self.arrays.append(np.asarray(value.transpose(order), order="C"))
        encoded: dict[str, Any] = {"$": "array", "array": len(self.arrays) - 1}
        return encoded if order == list(range(value.ndim)) else {**encoded, "axes": order}

    def _instance(self, value: Any, where: str) -> dict[str, Any]:
        """An instance of a known class by its attributes."""
        function = scikit_learn_name(value)  # such as the score of SelectKBest
        if function is not None:
            return {"$": "function", "name": function}
        name = self._names.get(type(value)) or scikit_learn_name(type(value))
        if name is None:
            raise ModelFileError(_refusal(value, where))
        state = {key: self.encode(item, f"{where}.{key}") for key, item in _state(value).items()}
        self.objects.append({"class": name, "state": state})
        return {"$": "object", "index": len(self.objects) - 1}


def _state(value: Any) -> dict[str, Any]:
    """Attributes of an instance, from ``__getstate__`` where a class has its own.

    Callbacks are left out: they watch a fit, and a model in a file has been fitted.
    """
    state = value.__getstate__()
    if isinstance(state, tuple):  # (attributes, slots)
        state = {**(state[0] or {}), **(state[1] or {})}
    state = {key: item for key, item in (state or {}).items() if not key.startswith("_skl_")}
    return {**state, "callback": None} if "callback" in state else state


def _refusal(value: Any, where: str) -> str:
    """Why an object cannot be stored, and what to do about it."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, type) or (callable(value) and not isinstance(value, BaseEstimator)):
        name = getattr(value, "__qualname__", kind)
        return (
            f"{where} is a Python function or class ({name}), and a model file holds no code, so that reading "
            "one is safe. Use a kernel of multikernel.kernels with columns by name or index, or precompute the "
            'kernel and fit with kernels="precomputed"'
        )
    return (
        f"{where} is a {kind}, which a model file cannot hold: only arrays, numbers, text, lists, tuples, dicts, "
        "objects of multikernel and transformers of scikit-learn. Pass trusted=[...] with its class, to save and to "
        "load, if it is yours"
    )


class Decoder:
    """Rebuilds objects from JSON; the inverse of `Encoder`. No class but the given ones is ever made."""

    def __init__(self, classes: Mapping[str, type], manifest: Mapping[str, Any], read_array: Callable[[int], Any]):
        self._classes, self._objects = classes, manifest["objects"]
        self._written_by = manifest["versions"]["multikernel"]
        self._read_array = functools.cache(read_array)
        self.instances: dict[int, Any] = {}  # those made so far, by their position in ``objects``

    def decode(self, value: Any) -> Any:
        """The object that a JSON value stands for."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = value.get("$")
        if kind == "float":
            return float(value["value"])
        if kind == "dict":
            return {self.decode(key): self.decode(item) for key, item in value["items"]}
        if kind == "tuple":
            return tuple(self.decode(value["items"]))
        if kind in ("slice", "range"):
            return {"slice": slice, "range": range}[kind](*self.decode(value["items"]))
        make = getattr(self, f"_make_{kind}", None)
        if make is None:
            raise ModelFileError(f"unknown kind of entry {kind!r}")
        return make(value)

    def _make_dtype(self, value: dict[str, Any]) -> Any:
        dtype = np.dtype(str(value["name"]))
        return dtype.type if value["type"] else dtype

    def _make_array(self, value: dict[str, Any]) -> np.ndarray:
        array = self._read_array(int(value["array"]))
        return array.transpose(np.argsort(value["axes"])) if "axes" in value else array

    def _make_scalar(self, value: dict[str, Any]) -> Any:
        return self._make_array(value)[()]

    def _make_objects(self, value: dict[str, Any]) -> np.ndarray:
        items = self.decode(value["items"])
        array = np.empty(len(items), dtype=object)
        array[:] = items
        return array.reshape(value["shape"])

    def _make_sparse(self, value: dict[str, Any]) -> Any:
        parts = tuple(self._make_array(part) for part in value["parts"])
        make = scipy.sparse.csr_matrix if value["matrix"] else scipy.sparse.csr_array
        matrix = make(parts, shape=tuple(value["shape"]))
        matrix.check_format(full_check=True)  # every position, because compiled loops go where it says
        return matrix

    def _make_function(self, value: dict[str, Any]) -> Any:
        found = scikit_learn_part(value["name"])
        if found is None or isinstance(found, type):
            raise ModelFileError(f"it names {value['name']!r}, which is not a function that a file may refer to")
        return found

    def _make_object(self, value: dict[str, Any]) -> Any:
        index = int(value["index"])
        if index not in self.instances:
            entry = self._objects[index]
            self.instances[index] = self._instance(entry["class"], entry["state"])
        return self.instances[index]

    def _instance(self, name: str, encoded: dict[str, Any]) -> Any:
        """An instance of one of the known classes with the attributes given; its constructor is not run."""
        cls: Any = self._classes.get(name) or scikit_learn_part(name)
        if inspect.isfunction(cls) or cls is None:
            raise ModelFileError(
                f"it holds a {name}, which multikernel does not have or does not allow in files (it was written "
                f"by multikernel {self._written_by}). If the class is yours, pass trusted=[{name}]"
            )
        state = {key: self.decode(item) for key, item in encoded.items() if not key.startswith("__")}
        if issubclass(cls, BaseEstimator):
            missing = sorted(set(cls._get_param_names()) - set(state))
            if missing:
                raise ModelFileError(
                    f"it was written by multikernel {self._written_by}, whose {name} had no parameter "
                    f"{missing[0]!r}. Fit the model again with this version"
                )
        instance = cls.__new__(cls)
        if hasattr(instance, "__setstate__"):
            instance.__setstate__(state)
        else:
            for key, item in state.items():
                object.__setattr__(instance, key, item)
        return instance
