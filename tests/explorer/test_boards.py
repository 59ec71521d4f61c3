"""The boards that ship, as the explorer shows them: the numbers are those of the card."""

from __future__ import annotations

import re
from html import unescape

import longshot

from .conftest import Client


def test_every_board_that_ships_is_listed_and_opens(client: Client) -> None:
    assert 'href="/boards"' in client.get("/").text
    listed = client.get("/boards").text
    names = re.findall(r'href="/boards/([^"]+)"', listed)
    assert {"hard-photos-1", "cub-1", "omniglot-1"} <= set(names) and "toybox-1" not in names
    assert client.get("/boards/nothing-9").status == 404


def test_a_board_shows_the_card(client: Client) -> None:
    page = client.made("/boards/cub-1")
    card = longshot.bench([], suite="cub-1", board=True)
    for heading in ("Leaderboard", "cub-1: accuracy against difficulty", "Agreement of rankings"):
        assert heading in page
    best = card.board_sheet.rows[0]
    numbers = re.findall(r'<span class="value">([^<]+)</span>', page)
    assert [cell.text.split(" ")[0] for cell in best if isinstance(cell.value, float)] == numbers[
        : sum(isinstance(cell.value, float) for cell in best)
    ]
    assert page.count("<figure") == len({entry.method for entry in card.board.entries})
    assert unescape(card.about) in unescape(page)
