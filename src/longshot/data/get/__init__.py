"""Getting published datasets: explicit downloads, checked, unpacked and registered."""

from __future__ import annotations

from longshot.data.get.get import get_dataset, list_downloads, plan_download

__all__ = ["get_dataset", "list_downloads", "plan_download"]
