"""Basu et al., 2023: Hard-Meta-Dataset++, few-shot classifiers on difficult supports."""
