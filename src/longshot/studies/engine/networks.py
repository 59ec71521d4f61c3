"""The setting ``networks`` of a study: networks that it trains itself, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, ConfigDict

from longshot.base import Record, UserError
from longshot.studies.engine.settings import Text
from longshot.studies.engine.training import option_names


def _algorithm_call(text: str) -> str:
    from longshot.training import get_algorithm

    return get_algorithm(text).call


class NetworkSettings(Record):
    """A network to train: its algorithm, and any option of ``longshot.train`` beside the study's own settings."""

    model_config = ConfigDict(extra="allow")
    algorithm: Annotated[Text, AfterValidator(_algorithm_call)]

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``longshot.train`` that were given."""
        return dict(self.model_extra or {})

    @property
    def start(self) -> str | None:
        """The network of the study, or the saved one, that training starts from."""
        return self.options.get("start")


NetworkType = TypeVar("NetworkType", bound=NetworkSettings)


def check_options(networks: Mapping[str, NetworkType], closed: tuple[str, ...] = ()) -> None:
    """UserError for an option that ``longshot.train`` does not have, or that the study sets itself."""
    for name, network in networks.items():
        options = [option for option in option_names() if option not in closed]
        unknown = [option for option in network.options if option not in options]
        if unknown:
            names = ", ".join([*type(network).model_fields, *options])
            raise UserError(f"The network '{name}' has no '{unknown[0]}'; it takes {names}.")
