"""What other rooms may use of this one, a line each."""

from .releases.front_matter import without_front_matter as without_front_matter  # The card for people
from .releases.verify import verify as verify  # Check a copy of a release
from .releases.write import release as release  # Write a benchmark that others can use
from .suites.bench import bench as bench  # Measure models on a suite
from .suites.card import BenchCard as BenchCard  # The entries measured now, and the leaderboard that they are on
from .suites.leaderboard import Leaderboard as Leaderboard  # leaderboard.json
from .suites.leaderboard import read_board as read_board  # A board from its file
