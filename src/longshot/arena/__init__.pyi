"""What other rooms may use of this one, a line each."""

from .bundle_check import check_bundle as check_bundle  # Check any Codabench bundle against the rules of its unpacker
from .bundle_run import run_bundle as run_bundle  # Ingest and score a submission with a bundle's own programs
from .environments import build_environment as build_environment  # Build the packages that a competition asks for
from .entry_audit import audit_entry as audit_entry  # Run an entry again without what it brought
from .kit import write_kit as write_kit  # Write the starting kit of a competition as a zip
from .local_competition import export_bundle as export_bundle  # Write a competition as a Codabench bundle
from .local_competition import try_submission as try_submission  # Run a submission without entering it
from .local_competition import write_leaderboard as write_leaderboard  # Write the leaderboards of a phase as a page
from .new_competition import BASELINES as BASELINES  # Baseline → what it is
from .new_competition import create as create  # Make a working competition on the embedded default
from .new_competition import dry_run as dry_run  # Run the whole competition with baselines
from .new_competition import write_baseline as write_baseline  # Write a baseline as a submission
from .connected_competition import ConnectedCompetition as ConnectedCompetition  # In a folder or on a server
from .connected_competition import connect as connect  # Connect to a competition in a folder or on a server
from .server.competition_serving import invite as invite  # Let somebody into the competition's server
from .server.competition_serving import serve_competition as serve_competition  # Serve a competition over HTTP
from .settings import Competition as Competition  # The settings of a competition
from .settings import load as load  # Read and check `competition.yaml`
from .submission_check import check_submission as check_submission  # Check a submission as `submit` does
from .submission_writer import make_submission as make_submission  # Write any method or network as a submission
