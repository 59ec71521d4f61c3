"""A dataset seen through one backbone: extraction, the array with its sidecar, the on-disk cache."""
