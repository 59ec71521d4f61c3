"""A method: the nearest median."""

import torch

from longshot.base import TaskBatch
from longshot.models import Method, mask_absent


class MedianPrototypes(Method):
    """Score a class by the distance of a query to the median of the class's support features."""

    name = "median-prototypes"
    setting = "inductive"
    family = "prototypes"

    def scores(self, batch: TaskBatch) -> torch.Tensor:
        """Return −‖q − median_w‖ for every query q and class w, [B, Q, W]."""
        absent = torch.full((), torch.nan, device=batch.support.device)
        columns = []
        for way in range(int(batch.ways.max())):
            of_class = (batch.support_label == way).unsqueeze(2)
            median = torch.where(of_class, batch.support, absent).nanmedian(dim=1).values  # [B, d]
            columns.append(-(batch.query - median.unsqueeze(1)).norm(dim=2))
        return mask_absent(torch.stack(columns, dim=2).nan_to_num(nan=0.0), batch)
