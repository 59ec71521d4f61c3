"""Suspected labels and copies one by one, to keep or to drop: the one thing that the explorer writes, where it may."""

from __future__ import annotations

import hmac
import threading
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from longshot.audit import decide_images, read_decisions, review_file, undo_decisions
from longshot.base import UserError, in_words
from longshot.data import registry
from longshot.explorer.dataset_views import dataset_frame, open_item
from longshot.explorer.library import Item
from longshot.explorer.listing import address
from longshot.explorer.map_views import suspects_job
from longshot.explorer.query_answers import networks_of
from longshot.explorer.site import NotThere, Page, Site, made
from longshot.explorer.sprites import class_titles, image_gallery
from longshot.reports import Section

_BODY = 8_192  # bytes of a form
_deciding = threading.Lock()  # from the look at a decision to the next
_BESIDE = 6  # pictures of each class that stand beside the doubtful one


def dataset_review(site: Site, item: Item, query: Any, notice: str = "") -> Page:
    """Show one doubtful image beside others of its class and of the class that it looks like."""
    dataset = open_item(site, item)
    networks = networks_of(dataset.fingerprint)
    if not networks:
        sentence = in_words(
            "The cache holds no features of this dataset, so nothing is doubted; {embed()} makes some."
        )
        return dataset_frame(item, dataset, "review", [made("review", "Review", sentence)])
    network = str(query.get("network", "")) if query.get("network") in networks else networks[0]
    judged = site.plot_worker.sections(suspects_job(item, dataset, network))
    if judged is None or judged[0]["problem"]:
        waiting = "The images are still being looked at. This page is loaded again when it is done."
        return dataset_frame(
            item, dataset, "review", [made("review", "Review", judged[0]["problem"] if judged else waiting)]
        )
    doubted = {row["row"]: row for row in judged[0]["rows"]}
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
        "networks": [
            (name, address(f"{item.url}/review", [("network", name)]), name == network) for name in networks
        ],
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
        "why": f"looks like {names[row['rival']]}, {row['odds']:,.0f} to 1"
        if row.get("rival")
        else row["why"],
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
