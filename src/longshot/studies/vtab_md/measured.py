"""What the rows of the study VTAB+MD came to, read off its run."""

from __future__ import annotations

from longshot.evaluation import ClassIntervals
from longshot.studies.vtab_md.choices import big_method
from longshot.studies.vtab_md.plan import VtabLab, episodes_name, plan_of
from longshot.studies.vtab_md.scores import VtabScores, image_values


def scores_of(lab: VtabLab) -> VtabScores:
    """The numbers of all rows, read once."""
    return lab.once("scores", lambda: _scores(lab))


def _scores(lab: VtabLab) -> VtabScores:
    plan = plan_of(lab)
    values, settings, over_classes = {}, {}, {}
    for row in plan.rows:
        backbone = lab.backbone(row.backbone)
        if row.md is not None and plan.episodic:
            settings[row.name, "md"] = lab.scores.setting(row.md)
            for source in plan.episodic:
                testbed = episodes_name(lab.settings, source.name, row.tasks)
                values[row.name, source.name] = lab.scores.values(testbed, backbone, row.md)
                rows = lab.scores.rows(testbed, backbone, row.md)
                crossed = ClassIntervals(lab.testbeds[testbed], rows["task"].to_numpy())
                over_classes[row.name, source.name] = crossed.interval(crossed.right(rows["prediction"])).half
        method = big_method(lab, row.name)
        if method is not None:
            settings[row.name, "big"] = lab.scores.setting(method)
            for name in plan.big:
                values[row.name, name] = image_values(lab.scores, name, backbone, method)
    return VtabScores(plan.rows, plan.sources, values, settings, over_classes)
