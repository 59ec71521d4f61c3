"""Suspected labels and copies one by one, to keep or to drop: the one thing that the explorer writes, where it may."""

from __future__ import annotations

import hmac
import threading
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from longshot.audit import decide_images, read_decisions, review_file, undo_decisions
from longshot.base import UserError, in_words
from longshot.data import registry
from longshot.explorer.dataset_views import LOOKING, dataset_frame, open_item, page_of, pager_of
from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.map_views import suspects_job
from longshot.explorer.query_answers import networks_of
from longshot.explorer.site import Instead, NotThere, Page, Site, made
from longshot.explorer.sprites import SHOWN, class_titles, image_gallery
from longshot.reports import Section

if TYPE_CHECKING:
    from longshot.data import Dataset

_BODY = 8_192  # bytes of a form
_deciding = threading.Lock()  # from the look at a decision to the next
_BESIDE = 6  # pictures of each class that stand beside the doubtful one


def _judged(
    site: Site, item: Item, query: Any, here: str, heading: str
) -> tuple[Dataset, list[tuple[str, str, bool]], str, list[dict[str, Any]], str]:
    """Return the dataset, the networks as choices, the chosen one, the images that it doubts, and how it judges."""
    dataset = open_item(site, item)
    frame = partial(dataset_frame, item, dataset, here)
    networks = networks_of(dataset.fingerprint)
    if not networks:
        sentence = (
            "The cache holds no features of this dataset, so nothing judges its labels; {embed()} makes some."
        )
        raise Instead(frame([made(here, heading, in_words(sentence))]))
    network = str(query.get("network", "")) if query.get("network") in networks else networks[0]
    judged = site.worked(suspects_job(item, dataset, network), heading, LOOKING, frame)[0]
    choices = [
        (name, address(f"{item.url}/{here}", [("network", name)]), name == network) for name in networks
    ]
    return dataset, choices, network, judged["rows"], judged["heading"]


def _why(row: dict[str, Any], names: dict[str, str]) -> str:
    rival = row.get("rival")
    return f"looks like {names.get(rival, rival)}, {row['odds']:,.0f} to 1" if rival else str(row["why"])


def dataset_suspects(site: Site, item: Item, query: Any) -> Page:
    """Show images whose label looks wrong by the features of one network, which is named."""
    heading = "Suspected labels"
    dataset, choices, network, rows, note = _judged(site, item, query, "suspects", heading)
    class_id = str(query.get("class", ""))[:500]
    decisions = read_decisions(dataset)  # nobody doubts what a person keeps
    keys = {row["row"]: str(dataset.keys[row["row"]].as_py()) for row in rows}
    listed = [
        row for row in rows if class_id in ("", row["class"]) and decisions.get(keys[row["row"]]) != "keep"
    ]
    page, start = page_of(query, len(listed), SHOWN)
    shown = listed[start : start + SHOWN]
    gallery = image_gallery(item, dataset, [int(row["row"]) for row in shown])
    names = class_titles(dataset)
    for tile, row in zip(gallery["tiles"], shown, strict=True):
        tile["caption"] = _why(row, names)

    def link(**changes: Any) -> str:
        facts = {"network": network, "class": class_id, **changes}
        return address(f"{item.url}/suspects", [(key, str(value)) for key, value in facts.items() if value])

    context = {
        **gallery,
        "choices": choices,
        **pager_of(link, page, start, len(shown), len(listed), "suspected images"),
        "empty": f"{network} suspects none of {len(dataset):,} images{' in this class' if class_id else ''}.",
        "note": note,
    }
    return dataset_frame(item, dataset, "suspects", [Section("suspects", heading, context, "gallery")])


def dataset_review(site: Site, item: Item, query: Any, notice: str = "") -> Page:
    """Show one doubtful image beside others of its class and of the class that it looks like."""
    dataset, networks, network, judged, _ = _judged(site, item, query, "review", "Review")
    doubted = {row["row"]: row for row in judged}
    rows, decisions = list(doubted), read_decisions(dataset)
    keys = [str(dataset.keys[row].as_py()) for row in rows]
    is_open = [number for number, key in enumerate(keys) if key not in decisions]
    asked_row = str(query.get("row", ""))
    number = rows.index(int(asked_row)) if asked_row.isdecimal() and int(asked_row) in doubted else -1
    if number < 0 and rows:
        number = is_open[0] if is_open else 0

    def link(at: int) -> str:
        return address(f"{item.url}/review", [("network", network), ("row", str(rows[at]))])

    context: dict[str, Any] = {
        "networks": networks,
        "total": len(rows),
        "open": len(is_open),
        "file": review_file(dataset).name,
        "writes": bool(site.csrf),
        "command": f"longshot datasets review {item.name}",
        "beside": [],
    }
    page = dataset_frame(item, dataset, "review", [Section("review", "Review", context, "dataset_review")])
    page.notices += [notice] if notice else []
    if not rows:
        return page
    row = doubted[rows[number]]
    names = class_titles(dataset)
    for class_id in filter(None, (row["class"], row.get("rival"))):
        own = np.arange(len(dataset))[dataset.rows(dataset.class_index(class_id))]
        clean = own[~np.isin(own, rows)][:: max(1, len(own) // _BESIDE)][:_BESIDE]
        context["beside"].append({"name": names[class_id], **image_gallery(item, dataset, clean.tolist())})
    later = [at for at in is_open if at > number] or [at for at in is_open if at != number]
    context |= {
        "row": rows[number],
        "key": keys[number],
        "large": f"{item.url}/image-{rows[number]}.jpg",
        "class_name": names[row["class"]],
        "why": _why(row, names),
        "place": number + 1,
        "decision": decisions.get(keys[number], ""),
        "csrf": site.csrf,
        "path": f"{item.url}/review",
        "network": network,
        "next": rows[later[0]] if later else rows[number],
    }
    page.steps = [("prev", link(number - 1))] if number else []
    page.steps = [*page.steps, *([("next", link(number + 1))] if number + 1 < len(rows) else [])]
    page.keys = {{"prev": "ArrowLeft", "next": "ArrowRight"}[rel]: url for rel, url in page.steps}
    return page


async def read_form(request: Request, site: Site) -> dict[str, str]:
    """Read a small form; UserError unless it has the token that this server gave to its pages."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY:
            raise UserError(f"A form has at most {_BODY:,} bytes")
    fields = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    if not site.csrf or not hmac.compare_digest(fields.get("csrf", "").encode(), site.csrf.encode()):
        raise UserError(
            "This form was not made by this server, or by an earlier start of it", "open the page again"
        )
    return fields


def take_decision(site: Site, item: Item, fields: dict[str, str]) -> Page | Response:
    """Store a decision about one image, unless somebody else decided since the page was made."""
    dataset = open_item(site, item)
    key, verdict, seen = fields.get("key", ""), fields.get("verdict", ""), fields.get("seen", "")
    query = {"network": fields.get("network", ""), "row": fields.get("row", "")}
    with _deciding:
        current = read_decisions(dataset).get(key, "")
        if current != seen:
            held = (
                f"was decided by somebody else meanwhile: {current}"
                if current
                else "has no decision any more"
            )
            return dataset_review(site, item, query, f"This image {held}. Nothing was changed.")
        if verdict == "undo":
            undo_decisions(dataset, [key])
        elif verdict in ("keep", "drop"):
            decide_images(dataset, [key], "keep" if verdict == "keep" else "drop")
            query["row"] = fields.get("next", "")
        else:
            raise NotThere("A decision is keep, drop or undo.")
    return RedirectResponse(address(f"{item.url}/review", list(query.items())), 303)


def forget_dataset(site: Site, item: Item, fields: dict[str, str]) -> Response:
    """Forget a dataset; its images stay where they are."""
    registry.forget(item.name)
    site.library.items(fresh=True)
    return RedirectResponse("/?kind=dataset", 303)
