"""Speed against peers, as ratios in one run: `python -m benchmarks [NAME…]`. No unit test depends on it."""
