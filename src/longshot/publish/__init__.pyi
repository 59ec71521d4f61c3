"""What other rooms may use of this one, a line each."""

from .bench_suite import BenchCard as BenchCard  # The entries measured now, and the leaderboard that they are on
from .bench_group import GroupCard as GroupCard  # The cards of several suites, and what they say together
from .bench_suite import bench as bench  # Measure models on a suite
from .release_card import without_front_matter as without_front_matter  # The card for people
from .leaderboard import Leaderboard as Leaderboard  # leaderboard.json
from .leaderboard import read_board as read_board  # A board from its file
from .verify_release import verify as verify  # Check a copy of a release
from .write_release import release as release  # Write a benchmark that others can use
