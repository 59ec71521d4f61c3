"""Speed against peers, as ratios in one run. `python -m benchmarks [NAME…]`; nothing here decides a unit test."""
