"""The pages of a competition in a real browser, as visitor, participant and organiser see and use them."""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from browsing import Window
from longshot.arena import worker as runner
from longshot.arena.client import Client
from longshot.arena.server import uploads
from longshot.arena.server.page_rendering import TEMPLATES
from longshot.cli import every_command

from ..conftest import write_competition
from .conftest import PASSWORD, Arena, Visitor, archive, change, log_in, open_arena

pytestmark = pytest.mark.browser
VISITORS = ("/", "/board", "/rules", "/terms", "/login", "/register")
MEMBERS = ("/", "/submit", "/submissions", "/submissions/1", "/team", "/account", "/board")
ORGANISERS = (
    *("/organise", "/organise/announcements", "/organise/queue", "/organise/scores", "/organise/bin"),
    *("/organise/uploads", "/organise/audit", "/submissions"),
)
MARKUP = "<img src=x onerror=alert(1)><script>alert(1)</script>\"'&"


def sign_in(window: Window, name: str) -> None:
    window.open("/login")
    window.page.fill("#name", name)
    window.page.fill("#password", PASSWORD)
    window.page.click("main button")
    window.page.wait_for_selector("text=Signed in as")


def newcomer(arena: Arena, name: str) -> Visitor:
    """Somebody who was invited and agrees to the terms."""
    code = arena.organiser.good("POST", "/organiser/invitations", {})["code"]
    wish = {"name": name, "password": PASSWORD, "code": code, "terms": True}
    arena.visitor.good("POST", "/accounts", wish)
    return log_in(arena.visitor, name)


@pytest.fixture(scope="module")
def fair(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A competition with an announcement and a submission of Ada's, and terms."""
    folder = tmp_path_factory.mktemp("fair") / "competition"
    write_competition(folder, images)
    arena = open_arena(folder)
    path = folder / "competition.yaml"  # after its first people came in; it is read again
    path.write_text(path.read_text() + "\nserver: {terms: terms.md, rules: rules.md, registration: open}\n")
    (folder / "rules.md").write_text("One entry per team.\n")
    (folder / "terms.md").write_text("Be fair.\n<b>No markup.</b>\n")
    arena.organiser.good("POST", "/announcements", {"title": "Welcome", "text": "The queue is open."})
    arena.submit(arena.ada)
    yield arena
    arena.server.close()


@pytest.fixture
def windows(browser: Any, fair: Arena) -> Iterator[Any]:
    opened: list[Window] = []

    def open_window(screen: str = "desktop", **options: bool) -> Window:
        opened.append(Window(browser, fair.server.url.rstrip("/"), screen, **options))
        return opened[-1]

    yield open_window
    for window in opened:
        window.context.close()


@pytest.mark.parametrize(
    ("screen", "name", "paths"),
    [
        ("phone", "Ada", ("/submissions/1",)),
        ("desktop-dark", "Olga", ("/organise/scores",)),
        *(
            pytest.param(screen, name, paths, marks=pytest.mark.long)
            for name, paths in (("", VISITORS), ("Ada", MEMBERS), ("Olga", ORGANISERS))
            for screen in ("desktop", "desktop-dark", "phone", "phone-light")
        ),
    ],
)
def test_every_page_is_clean(windows: Any, screen: str, name: str, paths: tuple[str, ...]) -> None:
    window = windows(screen)
    if name:
        sign_in(window, name)
    for path in paths:
        window.check(path)


def test_the_front_page_tells_phases_quota_and_announcements(windows: Any) -> None:
    window = windows()
    sign_in(window, "Ada")
    text = window.page.inner_text("main")
    assert "feedback" in text and "open" in text and "The queue is open." in text
    assert "1 of 3" in window.page.inner_text("#quota")
    assert window.page.locator("time + .local").count() > 0  # beside UTC the reader's own time


@pytest.mark.long
def test_a_newcomer_comes_in_by_a_link_and_founds_a_team(windows: Any, fair: Arena) -> None:
    organiser, newcomer = windows(), windows("phone")
    sign_in(organiser, "Olga")
    organiser.open("/organise")
    organiser.page.click("text=Make an invitation")
    address = organiser.page.inner_text(".secret code")
    assert address.startswith(f"{newcomer.base}/register?code=")  # as it is sent to somebody
    newcomer.open(address.removeprefix(newcomer.base))
    newcomer.page.fill("#name", "Cleo")
    newcomer.page.fill("#password", "short")
    newcomer.page.check("input[name=terms]")
    newcomer.page.click("main button")
    assert "A password has 10 to 200 letters, this one has 5." in newcomer.page.inner_text("[role=alert]")
    assert newcomer.page.input_value("#name") == "Cleo"  # what was written stays, but for passwords
    newcomer.page.fill("#password", PASSWORD)
    newcomer.page.check("input[name=terms]")
    newcomer.page.click("main button")
    newcomer.page.wait_for_selector("h1:has-text('Your team')")
    newcomer.page.fill("#name", "The Nile")
    newcomer.page.click("text=Found it")
    assert newcomer.page.inner_text("h1") == "The Nile"
    newcomer.page.click("text=Sign out")
    assert newcomer.page.locator("text=Sign in").count() > 0
    assert "The Nile" in [team["name"] for team in fair.organiser.good("GET", "/organiser/teams")]


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_an_archive_is_handed_in_run_and_stands_on_the_board(
    windows: Any, fair: Arena, tmp_path: Path
) -> None:
    window = windows()
    sign_in(window, "Bob")
    file = tmp_path / "entry.zip"
    file.write_bytes(archive())
    window.open("/submit")
    window.page.set_input_files("#file", file)
    window.page.click("text=Hand it in")
    window.page.wait_for_selector("#receipt")
    assert "queued" in window.page.inner_text("main")
    assert "SHA-256" in window.page.inner_text("#receipt")
    runner.work(Client(fair.server.url, fair.worker_token))
    window.page.wait_for_selector(".state.scored")  # without being loaded again
    window.page.wait_for_selector(".log:has-text('scored')")
    window.open("/board")
    row = window.page.inner_text("tr.own")
    assert "Bob" in row and "±" in row
    assert window.messages == []


def test_a_refused_archive_is_told_in_the_sentence_of_the_command_line(
    windows: Any, fair: Arena, tmp_path: Path
) -> None:
    window = windows()
    sign_in(window, "Ada")
    file = tmp_path / "empty.zip"
    file.write_bytes(archive("x = 1\n"))
    window.open("/submit")
    window.page.set_input_files("#file", file)
    window.page.click("text=Hand it in")
    window.page.wait_for_selector("#upload-state:has-text('MyMetaLearner')")


@pytest.mark.long
def test_markup_in_every_field_is_text(windows: Any, fair: Arena) -> None:
    member, organiser = windows(), windows()
    code = fair.organiser.good("POST", "/organiser/invitations", {})["code"]
    member.open(f"/register?code={code}")
    member.page.fill("#name", MARKUP[:40])
    member.page.fill("#password", PASSWORD)
    member.page.check("input[name=terms]")
    member.page.click("main button")
    member.page.wait_for_selector("h1:has-text('Your team')")
    member.page.fill("#name", MARKUP[:90])
    member.page.fill("#pseudonym", MARKUP[:40])
    member.page.click("text=Found it")
    member.page.wait_for_selector("#members")
    member.open("/account")
    member.page.fill("#name", MARKUP)
    member.page.click("text=Make a token")
    sign_in(organiser, "Olga")
    for path, fields, button in (
        ("/organise/announcements", {"#title": MARKUP, "#text": MARKUP}, "Announce it"),
        ("/organise/queue", {"#why": MARKUP}, "Hand no more runs out"),
        ("/organise/queue", {}, "Hand runs out again"),
    ):
        organiser.open(path)
        for selector, text in fields.items():
            organiser.page.fill(selector, text)
        organiser.page.click(f"text={button}")
    sheet = {"title": MARKUP, "summary": MARKUP}
    number = fair.submit(fair.ada, fact_sheet=sheet)
    for window, paths in (
        (member, ("/", "/team", "/account", "/board")),
        (organiser, ("/", "/organise", "/organise/audit", f"/submissions/{number}", "/submissions")),
    ):
        for path in paths:
            window.open(path)
            assert window.page.locator("main script, main img").count() == 0, path
            if path not in (
                "/board",
                "/submissions",
                f"/submissions/{number}",
            ):  # there it is not, or in a form
                assert MARKUP[:40] in window.page.inner_text("body"), path
        assert window.messages == []


@pytest.mark.long
def test_a_team_is_joined_handed_on_and_left(windows: Any, fair: Arena) -> None:
    leader, member = windows(), windows("phone-light")
    for window, name in ((leader, "Eva"), (member, "Finn")):
        newcomer(fair, name)
        sign_in(window, name)
    leader.open("/team")
    leader.page.fill("#name", "Pair")
    leader.page.click("text=Found it")
    leader.page.click("text=Invite a member")
    address = leader.page.inner_text(".secret code")
    member.open(address.removeprefix(member.base))
    member.page.click("#join button")
    member.page.wait_for_selector("h1:has-text('Pair')")
    assert member.page.locator("#lead").count() == 0  # who does not lead sees no such forms
    leader.open("/team")
    leader.page.click("text=Let Finn lead")
    leader.page.wait_for_selector("tr:has-text('Finn') >> text=leads")
    member.open("/team")
    member.page.click("text=Remove Eva")
    member.page.wait_for_selector("tr:has-text('Finn')")
    assert member.page.locator("tr:has-text('Eva')").count() == 0
    member.page.click("text=Leave Pair")
    member.page.wait_for_selector("h1:has-text('Your team')")


@pytest.mark.long
def test_an_organiser_confirms_bins_and_finds_it_on_record(windows: Any, fair: Arena) -> None:
    window = windows()
    number = fair.submit(fair.bob, archive(note="for the bin"))
    fair.bob.good("POST", f"/submissions/{number}/cancel")
    sign_in(window, "Olga")
    window.open("/organise/scores")
    window.page.fill("#reason", "a mistake in the labels")
    window.page.fill("#confirm", "something else")
    window.page.click("text=Score it anew")
    assert "feedback" in window.page.inner_text("[role=alert]")
    assert window.page.input_value("#reason") == "a mistake in the labels"
    window.open(f"/submissions/{number}")
    window.page.click("text=Put it into the bin")
    window.page.wait_for_selector(f"li:has-text('Submission {number}')")
    window.page.click(f"[aria-label='Take submission {number} out']")
    window.page.wait_for_selector("text=The bin is empty.")
    window.open("/organise/audit")
    assert f"submission {number}" in window.page.inner_text("main")
    window.open("/organise")
    window.page.click("[aria-label='Close Bob']")
    window.page.wait_for_selector("tr:has-text('Bob') .state.disabled")
    window.page.click("[aria-label='Open Bob']")
    window.page.wait_for_selector("tr:has-text('Bob') .state.active")
    fair.bob.headers.update(log_in(fair.visitor, "Bob").headers)  # his sessions ended
    with window.page.expect_download() as download:
        window.page.click("text=Export everything")
    with zipfile.ZipFile(download.value.path()) as packed:
        assert {"competition.yaml", "tables/submissions.csv"} <= set(packed.namelist())


def test_whoever_asks_to_take_part_is_let_in_by_an_organiser(windows: Any, fair: Arena) -> None:
    newcomer, organiser = windows("phone-light"), windows()
    newcomer.open("/register")
    newcomer.page.fill("#name", "Dora")
    newcomer.page.fill("#password", PASSWORD)
    newcomer.page.check("input[name=terms]")
    newcomer.page.click("main button")
    newcomer.page.wait_for_selector("text=An organiser has to approve it")
    newcomer.open("/login")
    newcomer.page.fill("#name", "Dora")
    newcomer.page.fill("#password", PASSWORD)
    newcomer.page.click("main button")
    assert "the account is not open yet" in newcomer.page.inner_text("[role=alert]")
    sign_in(organiser, "Olga")
    organiser.open("/organise")
    assert "1 waiting for approval" in organiser.page.inner_text("body")
    organiser.page.click("[aria-label='Approve Dora']")
    organiser.page.wait_for_selector("tr:has-text('Dora') .state.active")
    sign_in(newcomer, "Dora")


def test_everything_works_without_the_script(windows: Any, fair: Arena, tmp_path: Path) -> None:
    """Reading, signing in, handing in and cancelling are plain pages and forms."""
    window = windows(scripts=False)
    for path, words in (("/board", "Leaderboard"), ("/rules", "One entry per team."), ("/terms", "Be fair.")):
        window.open(path)
        assert words in window.page.inner_text("body"), path
    sign_in(window, "Bob")
    file = tmp_path / "plain.zip"
    window.open("/submit")
    assert "in one piece" in window.page.inner_text("main")
    file.write_bytes(archive("x = 1\n"))
    window.page.set_input_files("#file", file)
    window.page.select_option("#league", "meta-learning")
    window.page.click("text=Hand it in")
    window.page.wait_for_selector("[role=alert]:has-text('MyMetaLearner')")
    assert window.page.input_value("#league") == "meta-learning"  # what was chosen stays
    file.write_bytes(archive(note="plain"))
    window.page.set_input_files("#file", file)
    window.page.click("text=Hand it in")
    window.page.wait_for_selector("#receipt")
    number = int(window.page.inner_text("h1").split()[1])
    receipt = fair.bob.good("GET", f"/submissions/{number}/receipt")
    assert receipt["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert receipt["league"] == "meta-learning"
    window.page.click("text=Cancel it")
    window.page.wait_for_selector(".state.cancelled")
    window.page.click("text=Sign out")
    window.page.wait_for_selector("text=Sign in")


@pytest.mark.long
def test_a_submission_is_cancelled_and_costs_nothing(windows: Any, fair: Arena) -> None:
    number = fair.submit(fair.ada, archive(note="cancelled"), league="meta-learning")
    window = windows("phone")
    sign_in(window, "Ada")
    window.open(f"/submissions/{number}")
    window.page.click("text=Cancel it")
    window.page.wait_for_selector(".state.cancelled")
    assert window.page.locator("text=Cancel it").count() == 0
    assert "cancelled by Ada" in window.page.inner_text("main")
    (own,) = (
        row
        for row in fair.ada.good("GET", "/quota")
        if (row["phase"], row["league"]) == ("feedback", "meta-learning")
    )
    assert own["today"] == 0 and own["attempts"] == 1


@pytest.mark.long
def test_a_broken_upload_goes_on_where_it_broke_off(
    windows: Any, fair: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "CHUNK", 200)
    window = windows()
    sign_in(window, "Bob")
    file = tmp_path / "long.zip"
    file.write_bytes(archive(note="broken off"))
    offsets: list[int] = []

    def pass_on(route: Any, request: Any) -> None:
        if request.method != "PUT":
            route.continue_()
            return
        offsets.append(int(request.url.rpartition("offset=")[2]))
        if len(offsets) == 2:
            route.abort()  # the script tries again by itself
        elif len(offsets) < 4:
            route.continue_()
        # The fourth piece is never answered: the reader loses patience, and loads the page anew.

    address = re.compile("/api/v1/uploads/[0-9a-f]+")
    window.page.route(address, pass_on)
    window.open("/submit")
    window.page.set_input_files("#file", file)
    window.page.click("text=Hand it in")
    window.page.wait_for_selector("#upload-state:has-text('400 of')")
    assert offsets[:3] == [0, 200, 200]
    window.open("/submit")
    window.page.unroute(address)  # after the page that waits for the answer is gone
    again: list[str] = []
    window.page.on("request", lambda request: again.append(request.url) if request.method == "PUT" else None)
    window.page.set_input_files("#file", file)
    window.page.click("text=Hand it in")
    window.page.wait_for_selector("#receipt")
    assert int(again[0].rpartition("=")[2]) >= 400  # what was there already is not sent again
    number = int(window.page.inner_text("h1").split()[1])
    receipt = fair.bob.good("GET", f"/submissions/{number}/receipt")
    assert receipt["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    fair.bob.good("POST", f"/submissions/{number}/cancel")


@pytest.mark.long
@pytest.mark.usefixtures("needs_sandbox")
def test_hidden_scores_and_scoring_anew(windows: Any, fair: Arena) -> None:
    """A participant sees no number before the phase is over, an organiser does; then all are scored anew."""
    settings = (fair.folder / "competition.yaml").read_text()
    change(fair.folder, "tasks: 3, per_day: 3", "tasks: 3, scores: hidden, per_day: 0, version: 1")
    person = newcomer(fair, "Ivo")
    person.good("POST", "/team", {"name": "Ivo"})
    number = fair.submit(person, archive(note="hidden"))
    worker = Client(fair.server.url, fair.worker_token)
    runner.work(worker)
    member, organiser = windows(), windows()
    sign_in(member, "Ivo")
    sign_in(organiser, "Olga")
    member.open(f"/submissions/{number}")
    assert "Its score is hidden until the phase is over." in member.page.inner_text("main")
    organiser.open(f"/submissions/{number}")
    score = organiser.page.inner_text("main p b")
    assert re.fullmatch(r"-?\d\.\d{4} ± \d\.\d{4}", score)
    for path in (f"/submissions/{number}", "/submissions", "/board?phase=feedback", "/"):
        member.open(path)
        assert score.split()[0] not in member.page.content(), path
    member.open("/board?phase=feedback")
    assert "hidden until it is over" in member.page.inner_text("main")
    assert member.page.locator("table.board").count() == 0
    organiser.open("/board?phase=feedback")
    assert score in organiser.page.inner_text("tr:has-text('Ivo')")

    organiser.open("/organise/scores")
    organiser.page.select_option("#kind", "score")
    organiser.page.fill("#reason", "a mistake in the scorer")
    organiser.page.fill("#confirm", "final")
    organiser.page.click("text=Score it anew")
    assert "was not confirmed" in organiser.page.inner_text("[role=alert]")
    organiser.page.select_option("#phase", "feedback")
    organiser.page.select_option("#kind", "score")
    organiser.page.fill("#reason", "a mistake in the scorer")
    organiser.page.fill("#confirm", "feedback")
    organiser.page.click("text=Score it anew")
    organiser.page.wait_for_selector("li:has-text('version 2')")
    organiser.open("/board?phase=feedback")
    assert "being scored anew" in organiser.page.inner_text("tr:has-text('Ivo')")
    runner.work(worker)
    organiser.open("/organise/scores")
    assert "0 to go" in organiser.page.inner_text("li:has-text('version 2')")
    (fair.folder / "competition.yaml").write_text(settings)  # scores are shown again
    member.open("/board?phase=feedback")
    assert score in member.page.inner_text("tr.own") and "version 2" in member.page.inner_text("main")


def test_an_address_without_a_page_says_so_as_a_page(fair: Arena) -> None:
    answer = fair.visitor.ask("GET", "/nothing/here")
    assert answer.status == 404 and "There is nothing at this address." in answer.body.decode()
    assert answer.headers["content-type"].startswith("text/html")
    assert fair.visitor.api("GET", "/nothing").headers["content-type"] == "application/problem+json"


def test_the_commands_that_pages_name_exist() -> None:
    commands = dict(every_command())
    named = [
        (words, re.findall(r", (\w+)=", options))
        for path in TEMPLATES.glob("*.j2")
        for words, options in re.findall(r'shell\("(\w+)[^"]*"(.*?)\) }}', path.read_text("utf-8"))
    ]
    assert len(named) >= 4
    for words, options in named:
        options_there = {option.name for option in commands[f"compete {words}"].params}
        assert set(options) <= options_there, words


def test_a_link_elsewhere_is_not_followed_after_signing_in(fair: Arena) -> None:
    for target in ("//example.org/steal", "https://example.org", "/\\example.org"):
        form = urlencode({"name": "Ada", "password": PASSWORD, "next": target}).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = fair.visitor.ask("POST", "/login", data=form, headers=kind)
        assert (answer.status, answer.headers["location"]) == (303, "/"), target
