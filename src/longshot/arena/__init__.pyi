"""What other rooms may use of this one, a line each."""

from .bundle_check import check_bundle as check_bundle  # Check any Codabench bundle against the rules of its unpacker
from .bundle_run import run_bundle as run_bundle  # Ingest and score a submission with a bundle's own programs
from .environments import build_environment as build_environment  # Build the packages that a competition asks for
from .entry_audit import audit_entry as audit_entry  # Run an entry again without what it brought
from .kit import write_kit as write_kit  # Write the starting kit of a competition as a zip
from .local_competition import blank_fact_sheet as blank_fact_sheet  # Write an empty fact sheet, to be filled in
from .local_competition import enter_final as enter_final  # Enter the last valid submission of all that qualified
from .local_competition import export_bundle as export_bundle  # Write a competition as a Codabench bundle
from .local_competition import fact_sheet_of as fact_sheet_of  # Return the fact sheet of a submission
from .local_competition import hand_in_fact_sheet as hand_in_fact_sheet  # Give a submission its fact sheet
from .local_competition import history as history  # List what happened to a submission, oldest first
from .local_competition import leaderboard as leaderboard  # Rank the last valid submission of every team
from .local_competition import rerun as rerun  # Put a submission that has ended back into the queue
from .local_competition import status as status  # List all submissions of a competition, oldest first
from .local_competition import submit as submit  # Put a submission into the queue, after a check
from .local_competition import try_submission as try_submission  # Run a submission without entering it
from .local_competition import work as work  # Run waiting submissions in the sandbox
from .local_competition import write_leaderboard as write_leaderboard  # Write the leaderboards of a phase as a page
from .new_competition import BASELINES as BASELINES  # Baseline → what it is
from .new_competition import create as create  # Make a working competition on the embedded default
from .new_competition import dry_run as dry_run  # Run the whole competition with baselines
from .new_competition import write_baseline as write_baseline  # Write a baseline as a submission
from .remote_competition import RemoteCompetition as RemoteCompetition  # A competition on a server
from .remote_competition import connect as connect  # Connect to a competition on a server
from .server.competition_serving import delete_upload as delete_upload  # Delete an unfinished upload
from .server.competition_serving import invite as invite  # Let somebody into the competition's server
from .server.competition_serving import serve_competition as serve_competition  # Serve a competition over HTTP
from .server.competition_serving import uploads as uploads  # List all teams' unfinished uploads
from .settings import Competition as Competition  # The settings of a competition
from .settings import load as load  # Read and check `competition.yaml`
from .submission_check import check_submission as check_submission  # Check a submission as `submit` does
from .submission_writer import make_submission as make_submission  # Write any method or network as a submission
