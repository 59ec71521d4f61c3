"""Carrión-Ojeda et al., 2022: networks trained on a domain itself against networks trained on other domains."""
