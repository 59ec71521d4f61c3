"""Dumoulin et al., 2021: VTAB+MD, transfer and meta-learning in one protocol."""
