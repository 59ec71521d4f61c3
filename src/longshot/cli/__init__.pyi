"""What other rooms may use of this one, a line each."""

from .common import COUNT as COUNT
from .common import FILE as FILE
from .common import FILE_PLACE as FILE_PLACE
from .common import PATH as PATH
from .common import PLACE as PLACE  # a file or folder that may be elsewhere
from .common import datasets_option as datasets_option  # `--dataset NAME=PATH`, repeatable, as the parameter …
from .common import echo_json as echo_json  # Print `value` as JSON that people can read
from .common import force_option as force_option
from .common import json_option as json_option
from .common import pairs_option as pairs_option  # A repeatable option of the form KEY=VALUE, as the parameter `name`
from .common import print_estimate as print_estimate  # What work would take, step by step and in all
from .common import print_table as print_table  # Print rows (all with the same keys) as a terminal table, or as one …
from .common import print_written as print_written  # Where a page or picture lies now, and its size where it is here
from .common import shared as shared  # The options of these parameters, which are the same in every command
from .common import sheet_rows as sheet_rows  # The rows of a sheet for `print_table`
from .main import ShellFace as ShellFace  # words a mistake by the flags of a command
from .main import command_words as command_words  # the command of a function: `make_split` → `split`
from .main import every_command as every_command  # every command and sub-command with its words
from .main import cli as cli  # the click group of all commands
from .main import run_command_line as run_command_line  # run the `longshot` command; mistakes end with a sentence
