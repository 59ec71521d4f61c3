"""A few-shot classifier as scikit-learn's estimators are: ``fit``, ``predict``, ``predict_proba``, ``classes_``."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.deploy.fitting import FOLDS
from longshot.deploy.heads import fit_temperature, frozen_method, make_head
from longshot.deploy.photo_sources import list_photos
from longshot.deploy.shipped_network import backbone_network
from longshot.models import ImageMethod, open_backbone


class FewShotClassifier:
    """Learn classes from few examples by one of Longshot's methods, with calibrated probabilities.

    It follows scikit-learn's conventions and needs it for nothing. Rows are vectors; with a ``backbone`` they are
    photos:
    paths, PIL pictures, or arrays [H, W, 3].

    Parameters
    ----------
    method : str
        Inductive, on features (see ``list_methods``).
    backbone : str, optional
        Turns photos into vectors.
    calibrate : bool
        Set the temperature on parts of the examples that are left out in turn, where every class has two.
    random_state : int
        Of these parts.

    Examples
    --------
    >>> rows = np.array([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
    >>> FewShotClassifier().fit(rows, ["a", "a", "b", "b"]).predict([[0.9, 0.2]]).tolist()
    ['b']
    >>> model = FewShotClassifier().set_params(method="ridge").fit(rows, ["a", "a", "b", "b"])
    >>> model.get_params()["method"], model.score(rows, ["a", "a", "b", "b"])
    ('ridge', 1.0)
    >>> model.predict_proba(rows).shape
    (4, 2)
    """

    _estimator_type = "classifier"

    def __init__(
        self,
        method: str = "simpleshot",
        backbone: str | None = None,
        calibrate: bool = True,
        random_state: int = 0,
    ) -> None:
        self.method, self.backbone, self.calibrate, self.random_state = (
            method,
            backbone,
            calibrate,
            random_state,
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            For scikit-learn; there is nothing deeper.
        """
        return {name: getattr(self, name) for name in signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set some parameters; return the estimator itself.

        Parameters
        ----------
        **parameters
            Those of the constructor.
        """
        for name, value in parameters.items():
            if name not in self.get_params():
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}; valid are {sorted(self.get_params())}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = {name: each.default for name, each in signature(type(self)).parameters.items()}
        changed = [
            f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        tags = Tags(
            estimator_type="classifier", target_tags=TargetTags(required=True), input_tags=InputTags()
        )
        tags.classifier_tags = ClassifierTags(
            poor_score=True
        )  # nearest means: not what checks with noise expect
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from examples; return the estimator itself.

        Parameters
        ----------
        X : array [n, d], or list of n photos with a ``backbone``
            The examples.
        y : array [n]
            Their classes.
        """
        method = frozen_method(self.method)
        if isinstance(method, ImageMethod):
            raise UserError(
                f"The method {method.call} adapts a network, and an estimator learns from vectors",
                "choose a {method} on features, such as ridge",
            )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows, labels = self._rows(X, y)
        self.classes_, label = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: {self.classes_[0]!r}; 2 are needed."
            )
        self.n_features_in_ = rows.shape[1]
        self.head_ = make_head(method, rows, label, len(self.classes_))
        if self.calibrate and np.bincount(label).min() > 1:
            self.head_.temperature = self._temperature(method, rows, label)
        return self

    def _temperature(self, method: Any, rows: NDArray[np.float32], label: NDArray[np.int64]) -> float:
        """Set the temperature on examples that a head did not learn from."""
        generator, scores, truth = np.random.default_rng(self.random_state), [], []
        fold = np.empty(len(label), np.int64)
        for number in range(len(self.classes_)):
            members = np.flatnonzero(label == number)
            fold[members] = generator.permutation(len(members)) % min(FOLDS, len(members))
        for number in range(int(fold.max()) + 1):
            apart = fold == number
            if np.bincount(label[~apart], minlength=len(self.classes_)).all():
                head = make_head(method, rows[~apart], label[~apart], len(self.classes_))
                scores.append(head.scores(torch.from_numpy(rows[apart])).numpy())
                truth.append(label[apart])
        return fit_temperature(np.concatenate(scores), np.concatenate(truth)) if scores else 1.0

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class, [n, C], in the order of ``classes_``.

        Parameters
        ----------
        X : as in ``fit``
            What is asked about.
        """
        rows = self._rows(X)[0]
        with torch.no_grad():
            values = self.head_.scores(torch.from_numpy(rows)).double() / self.head_.temperature
        probabilities: NDArray[np.float64] = values.softmax(1).numpy()
        return probabilities

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row, [n].

        Parameters
        ----------
        X : as in ``fit``
            What is asked about.
        """
        answers: NDArray[Any] = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[answers])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is right.

        Parameters
        ----------
        X, y : as in ``fit``
            What is asked about, and the truth.
        sample_weight : array [n], optional
            How much each row counts.
        """
        return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))

    def _rows(self, X: Any, y: Any = None) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return checked rows and labels; ValueError, as scikit-learn words it, for what is neither."""
        if y is None and not hasattr(self, "classes_"):
            raise _not_fitted(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments first."
            )
        if self.backbone is not None:
            network = backbone_network(open_backbone(self.backbone, "cpu"))  # type: ignore[arg-type]
            listed = list_photos(X)
            vectors, bad = network.vectors([photo for _, photo in listed])
            if bad:
                raise UserError(f"{listed[min(bad)][0]} cannot be read: {bad[min(bad)]}", "leave it out")
            return vectors, np.asarray(y)
        try:
            from sklearn.utils.validation import validate_data
        except ImportError:
            return _checked(
                X,
                None if y is None else np.asarray(y),
                getattr(self, "n_features_in_", None) if y is None else None,
            )
        if y is None:
            return np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float32)), np.empty(0)
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        from sklearn.utils.multiclass import check_classification_targets

        check_classification_targets(labels)
        return np.ascontiguousarray(rows), labels


def _checked(X: Any, y: NDArray[Any] | None, width: int | None) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return rows [n, d] and labels [n], checked without scikit-learn."""
    rows = np.ascontiguousarray(X, np.float32)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise ValueError(
            f"X has the shape {rows.shape} and must be [n, d] of finite numbers, n and d at least 1."
        )
    if (width is not None and rows.shape[1] != width) or (y is not None and y.shape != rows.shape[:1]):
        raise ValueError(
            f"X has the shape {rows.shape}; {width or 'any number of'} columns and a label per row are needed."
        )
    return rows, np.empty(0) if y is None else y


def _not_fitted(text: str) -> Exception:
    """Return scikit-learn's own error where it is installed, else one that is as much of a ValueError."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError(text)
    error: Exception = NotFittedError(text)
    return error
