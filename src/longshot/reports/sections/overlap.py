"""What training and test data are known to share: a result over images that training saw is no result."""

from __future__ import annotations

from longshot.reports.sections.base import Request, Section


def overlap(request: Request) -> Section | None:
    """One line per trained network and testbed; there when a run recorded what its networks were trained on."""
    names = {bed.hash: bed.name for bed in request.data.beds}
    lines = []
    for run in request.data.runs:
        for backbone, by_testbed in run.get("upstream", {}).items():
            for testbed, leaks in by_testbed.items():
                if testbed in names:
                    lines += [{"backbone": backbone, "testbed": names[testbed], **leak} for leak in leaks]
    if not lines:
        return None
    lines = [line for number, line in enumerate(lines) if line not in lines[:number]]
    leaky = [line for line in lines if line["images"] or line["classes"]]
    return Section("overlap", "Training and test data", {"lines": lines, "leaky": leaky})
