"""Why a task is hard: what its support and queries look like, and where they differ more than chance allows."""
