"""A few-shot classifier as scikit-learn's estimators are: ``fit``, ``predict``, ``predict_proba``, ``classes_``."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from longshot.base import UserError
from longshot.deploy.fitting import left_out
from longshot.deploy.heads import fit_certainty, make_head, shippable
from longshot.deploy.photo_sources import list_photos
from longshot.deploy.shipped_network import backbone_network
from longshot.models import ImageMethod, open_backbone

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.metadata_routing import UNUSED
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise UserError(
        "FewShotClassifier is an estimator of scikit-learn, which is not installed",
        "pip install scikit-learn",
    ) from error


class FewShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Learn classes from few examples by one of Longshot's methods, with calibrated probabilities.

    Rows are vectors; with a ``backbone`` they are photos: paths, PIL pictures, or arrays [H, W, 3].

    Parameters
    ----------
    method : str
        Inductive, on features (see ``list_methods``).
    backbone : str, optional
        Turns photos into vectors.
    calibrate : bool
        Set how sure answers are on parts of the examples that are left out in turn, where every class has two.
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

    __metadata_request__score: ClassVar = {"sample_weight": UNUSED}  # else it gets a set_score_request

    def __init__(
        self,
        method: str = "simpleshot",
        backbone: str | None = None,
        calibrate: bool = True,
        random_state: int = 0,
    ) -> None:
        self.method, self.backbone = method, backbone
        self.calibrate, self.random_state = calibrate, random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # nearest means: not what checks with noise expect
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from examples; return the estimator itself.

        Parameters
        ----------
        X : array [n, d], or list of n photos with a ``backbone``
            The examples.
        y : array [n]
            Their classes.
        """
        method = shippable(self.method)
        if isinstance(method, ImageMethod):
            raise UserError(
                f"The method {method.call} adapts a network, and an estimator learns from vectors",
                "choose a {method} on features, such as ridge",
            )
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows, labels = self._rows(X, y)
        check_classification_targets(labels)
        self.classes_, label = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: {self.classes_[0]!r}; 2 are needed."
            )
        self.n_features_in_ = rows.shape[1]
        self.head_ = make_head(method, rows, label, len(self.classes_))
        if self.calibrate and np.bincount(label).min() > 1:
            evidence = left_out(method, rows, label, np.arange(len(label)), self.random_state)
            if len(evidence.label):
                self.head_.certainty = fit_certainty(evidence.scores, evidence.label)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probability of every class, [n, C], in the order of ``classes_``.

        Parameters
        ----------
        X : as in ``fit``
            What is asked about.
        """
        rows = self._rows(X)[0]
        with torch.no_grad():
            scores = self.head_.scores(torch.from_numpy(rows)).double()
        probabilities: NDArray[np.float64] = self.head_.certainty.probabilities(scores).numpy()
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

    def _rows(self, X: Any, y: Any = None) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return checked rows and labels; ValueError, as scikit-learn words it, for what is neither."""
        if y is None:
            check_is_fitted(self)
        if self.backbone is not None:
            network = backbone_network(open_backbone(self.backbone, "cpu"))  # type: ignore[arg-type]
            listed = list_photos(X)
            vectors, bad = network.vectors([photo for _, photo in listed])
            if bad:
                raise UserError(f"{listed[min(bad)][0]} cannot be read: {bad[min(bad)]}", "leave it out")
            return vectors, np.asarray(y)
        if y is None:
            return np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float32)), np.empty(0)
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        return np.ascontiguousarray(rows), labels
