"""The one exception for mistakes a user can mend."""


class UserError(Exception):
    """A mistake in the input, told in one sentence: the thing, what was found, what is needed, the remedy.

    The command line prints the sentence without a traceback and exits with code 2.
    """
