"""What other rooms may use of this one, a line each."""

from .main import ShellFace as ShellFace  # words a mistake by the flags of a command
from .main import command_words as command_words  # the command of a function: `make_split` → `split`
from .main import every_command as every_command  # every command and sub-command with its words
from .main import cli as cli  # the click group of all commands
from .main import run_command_line as run_command_line  # run the `longshot` command; mistakes end with a sentence
