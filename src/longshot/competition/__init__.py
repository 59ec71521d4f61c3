"""Blind competitions: other people's code on hidden tasks, in a sandbox, scored and ranked."""
