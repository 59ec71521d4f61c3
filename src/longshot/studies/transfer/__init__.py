"""Arnold and Sha, 2021: accuracy by the distance between train and test classes."""
