"""Bennequin et al., 2022: testbeds of classes close in meaning, and tasks of many classes."""
