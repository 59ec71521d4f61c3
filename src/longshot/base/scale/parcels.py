"""What travels to a Ray cluster: values in bytes, and large arrays, which go into the object store once."""

from __future__ import annotations

import io
import pickle
import sys
from typing import Any

from longshot.base.errors import UserError
from longshot.base.scale.executor import Crew
from longshot.base.scale.nodes import living

_LARGE = 1 << 20  # bytes from which an array goes into the object store by itself
_ARRAYS = 32  # arrays that stay there between two calls


class Parcels:
    """Things on their way to the object store; a large array goes there once, however often it is used."""

    def __init__(self) -> None:
        self.arrays: dict[
            int, tuple[Any, Any]
        ] = {}  # id → the array, so that the id stays its own, and its reference

    def header(self, crew: Crew[Any, Any]) -> Any:
        """A reference to the pickled crew."""
        pickled, arrays = self.packed((crew.make, crew.shared))
        return self._put((pickled, arrays, crew.threads), len(pickled))

    def packed(self, value: Any) -> tuple[bytes, list[Any]]:
        """A value in bytes, and references to its large arrays."""
        import numpy as np
        from ray import cloudpickle

        references: list[Any] = []
        parcels = self
        for name, module in list(sys.modules.items()):
            if name.startswith("longshot_user_"):  # a file of the user's, which other machines do not have
                cloudpickle.register_pickle_by_value(module)

        class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]
            def persistent_id(self, value_: Any) -> Any:
                if not isinstance(value_, np.ndarray) or value_.nbytes < _LARGE or value_.dtype.hasobject:
                    return None
                references.append(parcels._array(value_))
                return len(references) - 1

        file = io.BytesIO()
        Pickler(file, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        return file.getvalue(), references

    def _array(self, array: Any) -> Any:
        import numpy as np

        if id(array) not in self.arrays:
            if len(self.arrays) >= _ARRAYS:
                self.arrays.pop(next(iter(self.arrays)))
            self.arrays[id(array)] = array, self._put(np.ascontiguousarray(array), array.nbytes)
        return self.arrays[id(array)][1]

    def _put(self, value: Any, size: int) -> Any:
        import ray
        import ray.exceptions

        try:
            return ray.put(value)
        except (ray.exceptions.ObjectStoreFullError, ray.exceptions.OutOfDiskError) as error:
            raise store_full(size) from error


def store_full(size: int) -> UserError:
    """What to say where the object store has no room."""
    room = int(sum(node["Resources"].get("object_store_memory", 0) for node in living().values()))
    needed = f"{size / 2**20:,.0f} MiB are to go there" if size else "results do not fit into it"
    return UserError(
        f"The object store of the Ray cluster is full: it holds {room / 2**20:,.0f} MiB, and {needed}",
        "start Ray with a larger object store, or give it a disk to spill to",
    )


def packed(value: Any) -> bytes:
    """A small value in bytes, functions of the user's included."""
    from ray import cloudpickle

    pickled: bytes = cloudpickle.dumps(value)
    return pickled
