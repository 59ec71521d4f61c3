"""Suites: versioned lists of testbeds and methods that models are measured on, cards and leaderboards."""
