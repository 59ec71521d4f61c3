"""What other rooms may use of this one, a line each."""

from .bench_suite import BenchCard as BenchCard  # The entries measured now, and the leaderboard that they are on
from .bench_group import GroupCard as GroupCard  # The cards of several suites, and what they say together
from .bench_suite import card_of as card_of  # The card of a suite with a board of it
from .bench_suite import bench as bench  # Measure models on a suite
from .release_card import without_front_matter as without_front_matter  # The card for people
from .leaderboard import Leaderboard as Leaderboard  # leaderboard.json
from .leaderboard import read_board as read_board  # A board from its file
from .suite import open_suite as open_suite  # A suite by name, from a folder or a URL
from .suite import shipped_groups as shipped_groups  # Groups of suites that come with Longshot
from .suite import shipped_suites as shipped_suites  # Suites that come with Longshot
from .suite import suite_facts as suite_facts  # What is known of a suite or a group that ships
from .verify_release import verify as verify  # Check a copy of a release
from .write_release import release as release  # Write a benchmark that others can use
