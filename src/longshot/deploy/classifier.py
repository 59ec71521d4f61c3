"""A classifier to ship: made by ``fit``, saved and opened as a folder, asked for photos, extended without
retraining.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch.nn.functional import normalize

from longshot.base import UserError, count, first, read_json
from longshot.data import encoded_of
from longshot.deploy import model_folder as parts
from longshot.deploy.heads import SUPPORT, Certainty, Head, make_head, shippable
from longshot.deploy.model_folder import ModelFacts, Reference, References
from longshot.deploy.photo_sources import Photos, list_photos
from longshot.deploy.shipped_network import ShippedNetwork, backbone_network, onnx_network
from longshot.models import Backbone, Method, is_own_method, open_backbone
from longshot.reports import thumbnail

if TYPE_CHECKING:
    from longshot.deploy.prediction_table import Predictions

NONE = "none of these"
SIDE = 96  # pixels of a thumbnail


@dataclass(eq=False)
class Classifier:
    """A network, what a method learned from reference photos, and what was measured of both.

    Parameters
    ----------
    facts : ModelFacts
        What ``model.json`` holds: classes, method, network, temperature, threshold, the measured card.
    network : ShippedNetwork
        Turns photos into vectors.
    head : Head
        Turns vectors into probabilities.
    references : list of Reference
        The reference photos, in the order of the head's support.
    seen : tuple of str, optional
        Digests of the photos that took part in choosing them.
    folder : path, optional
        Where it was read from or written to.

    Examples
    --------
    >>> toybox = longshot.open_dataset("toybox")
    >>> model = longshot.fit(toybox, backbone="pixels", out="toys")
    >>> Classifier.open("toys").classes == model.classes
    True
    >>> model.predict(toybox.image(0)).classes[0] in (*model.classes, NONE)
    True
    >>> len(model.remove(model.classes[0]).classes) == len(toybox.class_ids) - 1
    True
    >>> len(model.add("a new class", [toybox.image(0), toybox.image(1)]).classes) == len(toybox.class_ids)
    True
    >>> model.save("toys")
    >>> model.export("toys.onnx")  # doctest: +SKIP
    """

    facts: ModelFacts
    network: ShippedNetwork
    head: Head
    references: list[Reference]
    seen: tuple[str, ...] = ()
    folder: Path | None = field(default=None)

    @property
    def classes(self) -> tuple[str, ...]:
        """Return the ids of the classes, in the order of probabilities."""
        return self.facts.classes

    def __repr__(self) -> str:
        from longshot.deploy.model_card import screen

        return screen(self)

    @classmethod
    def open(cls, folder: str | Path) -> Classifier:
        """Open the folder of a model; UserError where a byte of it was changed.

        Parameters
        ----------
        folder : path
            What ``fit`` wrote.
        """
        folder = Path(folder)
        files = parts.read_files(folder)
        facts = read_json(ModelFacts, folder / parts.MODEL, "The model file")
        listed = read_json(References, folder / parts.REFERENCES, "The model file")
        method = stored_method(facts.method) if facts.form == SUPPORT else None
        try:
            tensors = load(files[parts.HEAD])
            _check_tensors(tensors, facts, listed)
            network = (
                onnx_network(files[parts.NETWORK], facts.network.preprocessing)
                if parts.NETWORK in files
                else _installed(facts, folder)
            )
        except UserError:
            raise
        except Exception as error:  # what reads tensors and networks raises classes of its own
            reason = " ".join(str(error).split())[:200].rstrip(".")
            raise UserError(
                f"The model {folder} is damaged: {reason}", "fit it again with {fit(FOLDER)}"
            ) from error
        head = Head(facts.form, tensors, method)
        head.certainty = Certainty(*facts.certainty)
        return cls(facts, network, head, list(listed.references), listed.seen, folder)

    def save(self, folder: str | Path) -> None:
        """Write the model as a folder; one that is there must be a model's.

        Parameters
        ----------
        folder : path
            Where to.
        """
        from longshot.deploy.model_card import card_markdown, card_page

        parts.claim_model(folder)
        listed = References(
            dataset=self.facts.dataset,
            fingerprint=self.facts.fingerprint,
            shot=len(self.references) / len(self.classes),
            references=tuple(self.references),
            seen=self.seen,
        )
        tensors = {name: tensor.contiguous() for name, tensor in self.head.tensors().items()}
        facts = self.facts.model_copy(
            update={"form": self.head.form, "certainty": tuple(self.head.certainty)}
        )
        files = {
            parts.MODEL: parts.as_json(facts),
            parts.HEAD: save(tensors),
            parts.REFERENCES: parts.as_json(listed),
            parts.CARD: card_markdown(self).encode(),
            parts.PAGE: card_page(self).encode(),
        }
        if self.network.onnx:
            files[parts.NETWORK] = self.network.onnx
        parts.write_model(Path(folder), files)
        self.folder = Path(folder)

    @torch.no_grad()
    def predict(self, photos: Photos, *, nearest: int = 3) -> Predictions:
        """Answer for photos: class, probability, nearest references, or none of these.

        Parameters
        ----------
        photos : str, Path, picture, array, Dataset, or a list of those
            Files, folders, archives, URLs; PIL pictures; arrays [H, W, 3] of bytes.
        nearest : int
            Reference photos that are named for each.

        Returns
        -------
        Predictions
            A row per photo; one that cannot be read says why.
        """
        from longshot.deploy.prediction_table import Predictions

        listed = list_photos(photos)
        values, bad = self.network.vectors([photo for _, photo in listed])
        vectors = torch.zeros(len(listed), self.head.support.shape[1])
        vectors[[position for position in range(len(listed)) if position not in bad]] = torch.from_numpy(
            values
        )
        probabilities, similarity = (answer.double().numpy() for answer in self.head(vectors))
        probabilities[[*bad]], similarity[[*bad]] = np.nan, np.nan
        units = normalize(self.head.support - self.head.mean, dim=1)
        sides = normalize(vectors - self.head.mean, dim=1) @ units.T
        near = sides.topk(min(nearest, len(self.references)), dim=1).indices.numpy()
        names, sources = [name for name, _ in listed], [photo for _, photo in listed]
        return Predictions(self, names, sources, probabilities, similarity, near, bad)

    def export(self, onnx: str | Path, *, force: bool = False) -> Path:
        """Write one ONNX file from decoded pixels to probabilities; see ``longshot.export``.

        Parameters
        ----------
        onnx : path
            File to write, ``.onnx``.
        force : bool
            Replace what is there, even if Longshot did not write it.
        """
        from longshot.deploy.onnx_file import export

        return export(self, onnx=onnx, force=force)

    def add(self, class_id: str, photos: Photos) -> Classifier:
        """Add references to a class, which may be new, without retraining; return the model itself.

        Certainty and threshold stay as they were measured; the card says what was changed since.

        Parameters
        ----------
        class_id : str
            A class of the model, or a new one.
        photos : see ``predict``
            Its reference photos.
        """
        method = self._extendable()
        listed = list_photos(photos)
        values, bad = self.network.vectors([photo for _, photo in listed])
        if bad:
            raise UserError(
                f"{count(len(bad), 'reference')} of {len(listed):,} cannot be read (first: "
                f"{listed[min(bad)][0]}: {bad[min(bad)]})",
                "mend or remove them",
            )
        fresh = [_reference(class_id, name, store, row) for name, (store, row) in listed]
        digests = {reference.digest for reference in self.references}
        if doubled := [reference.key for reference in fresh if reference.digest in digests]:
            raise UserError(
                f"{count(doubled, 'photo')} of '{class_id}' {'is' if len(doubled) == 1 else 'are'} a "
                f"reference already ({first(doubled)})",
                "leave them out",
            )
        classes = self.classes if class_id in self.classes else (*self.classes, class_id)
        support = np.concatenate([self.head.support.numpy(), values])
        references = [*self.references, *fresh]
        return self._relearn(
            method, references, support, classes, f"{count(fresh, 'photo')} of '{class_id}' added"
        )

    def remove(self, class_id: str) -> Classifier:
        """Remove a class with its references, without retraining; return the model itself.

        Parameters
        ----------
        class_id : str
            A class of the model; two must stay.
        """
        method = self._extendable()
        if class_id not in self.classes or len(self.classes) < 3:
            why = "it is none of them" if class_id not in self.classes else "2 must stay"
            raise UserError(
                f"'{class_id}' cannot be removed from {count(self.classes, 'class', 'classes')}: {why}."
            )
        staying = [at for at, reference in enumerate(self.references) if reference.class_id != class_id]
        remaining = tuple(name for name in self.classes if name != class_id)
        support = self.head.support.numpy()[staying]
        return self._relearn(
            method, [self.references[at] for at in staying], support, remaining, f"'{class_id}' removed"
        )

    def _extendable(self) -> Method:
        """Return the method; UserError where it adapted the network itself."""
        method = stored_method(self.facts.method)
        if not isinstance(method, Method):
            raise UserError(
                f"The method {self.facts.method} adapted the network to its classes, so none can be added or removed",
                "fit again, or choose a {method} that keeps the network, such as ridge",
            )
        return method

    def _relearn(
        self, method: Method, references: list[Reference], support: Any, classes: tuple[str, ...], change: str
    ) -> Classifier:
        """Let the method learn from other references; the vectors of those that stay are at hand."""
        label = np.array([classes.index(reference.class_id) for reference in references])
        order = np.argsort(label, kind="stable")
        certainty = self.head.certainty
        self.head = make_head(method, support[order], label[order], len(classes))
        self.head.certainty = certainty
        self.references = [references[position] for position in order]
        version = self.facts.version + 1
        history = (*self.facts.history, f"version {version}: {change}")
        self.facts = self.facts.model_copy(
            update={"classes": classes, "version": version, "history": history}
        )
        return self


def stored_method(text: str) -> Any:
    """Return the method that a model names; UserError for one whose code a model does not hold."""
    if is_own_method(text.partition("(")[0]):
        raise UserError(
            f"The model was fitted with the method '{text}', which is code that no model holds",
            "fit again with a {method} of Longshot's, such as ridge",
        )
    return shippable(text)


def _check_tensors(tensors: dict[str, Any], facts: ModelFacts, listed: References) -> None:
    """Raise ValueError where the tensors of a head do not fit the classes and references of a model."""
    classes, references = len(facts.classes), len(listed.references)
    shapes = {name: tuple(tensors[name].shape) for name in ("support", "label", "weight", "bias")}
    width = 0 if facts.form == SUPPORT else shapes["support"][-1]
    needed = {
        "support": (references, shapes["support"][-1]),
        "label": (references,),
        "weight": (classes, width),
        "bias": (classes,),
    }
    kinds = [str(tensors[name].dtype).removeprefix("torch.") for name in needed]
    if shapes != needed or kinds != ["float32", "int64", "float32", "float32"] or not references:
        raise ValueError(f"{parts.HEAD} holds {shapes}, and {needed} is needed")
    numbers = {class_id: number for number, class_id in enumerate(facts.classes)}
    if [numbers.get(each.class_id) for each in listed.references] != tensors["label"].tolist():
        raise ValueError(
            f"the references of {parts.HEAD} have other classes than those of {parts.REFERENCES}"
        )


def _reference(class_id: str, name: str, store: Any, row: int) -> Reference:
    digest = hashlib.sha256(encoded_of(store, row)).hexdigest()
    return Reference(class_id=class_id, key=name, digest=digest, thumbnail=thumbnail(store.read(row), SIDE))


def make_references(class_ids: Sequence[str], dataset: Any, rows: Any) -> list[Reference]:
    """Return some images of a dataset as references, with thumbnails."""
    keys = dataset.keys
    return [
        _reference(class_ids[dataset.labels[row]], str(keys[int(row)].as_py()), dataset.store, int(row))
        for row in rows
    ]


def _installed(facts: ModelFacts, folder: Path) -> ShippedNetwork:
    """Open the backbone that a model names; UserError where another network is called so here."""
    named = facts.network
    if "torch:" in named.name:
        raise UserError(
            f"The model {folder} names the network '{named.name}', which is code that no model holds",
            "fit again with a {backbone} that can be exported, such as efficientnet-lite0",
        )
    backbone = open_backbone(named.name, "cpu", engine="torch")
    if not isinstance(backbone, Backbone) or backbone.weights_hash != named.weights_hash:
        raise UserError(
            f"The model {folder} was fitted with '{named.name}' of the weights {named.weights_hash[:12]}, and what is "
            f"called so here has {backbone.weights_hash[:12]}",
            "install the network of the model, or fit again with this one",
        )
    return backbone_network(backbone)


def open_model(model: Classifier | str | Path) -> Classifier:
    """Return a model as it is, or open its folder."""
    return model if isinstance(model, Classifier) else Classifier.open(model)
