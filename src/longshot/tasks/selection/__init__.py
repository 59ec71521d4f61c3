"""Choosing the support of a task so that a classifier fails on its query (or succeeds): numerics only.

Nothing here knows datasets or testbeds. The inputs are a class-major feature array, the bounds of its
classes, and tasks as integer arrays; the outputs are support rows and what was measured on the way.
"""
