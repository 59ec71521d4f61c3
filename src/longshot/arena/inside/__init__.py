"""What runs inside the sandbox beside a submission. It imports nothing of Longshot, so that it can be shipped alone."""
