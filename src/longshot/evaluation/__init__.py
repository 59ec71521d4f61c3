"""Running methods over testbeds: metrics, statistics, the results of a run."""
