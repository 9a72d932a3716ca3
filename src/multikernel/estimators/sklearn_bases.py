"""scikit-learn's base classes, with types.

scikit-learn has none, so mypy takes its classes for ``Any``, and lets the constructor of a dataclass that derives
from ``Any`` accept anything. So mypy reads the outlines below; Python and other tools get the real classes.
"""

from __future__ import annotations

from typing import Any

MYPY = False  # which mypy believes to be true

if MYPY:

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...

    class CallbackSupport: ...

    def with_callbacks(method: Any) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class RegressorMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class OutlierMixin:
        def fit_predict(self, X: Any, y: Any = None, **kwargs: Any) -> Any: ...

    class TransformerMixin:
        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...
        def set_output(self, *, transform: Any = None) -> Any: ...

    class ClassNamePrefixFeaturesOutMixin:
        def get_feature_names_out(self, input_features: Any = None) -> Any: ...

else:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import ClassNamePrefixFeaturesOutMixin as ClassNamePrefixFeaturesOutMixin
    from sklearn.base import OutlierMixin as OutlierMixin
    from sklearn.base import RegressorMixin as RegressorMixin
    from sklearn.base import TransformerMixin as TransformerMixin

    try:
        from sklearn.callback import CallbackSupportMixin as CallbackSupport
        from sklearn.callback import with_callbacks as with_callbacks
    except ImportError:  # scikit-learn before 1.9

        class CallbackSupport:
            """Stand-in without callbacks."""

        def with_callbacks(method):
            """Stand-in that leaves the method as it is."""
            return method
