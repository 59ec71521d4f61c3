"""Work on a Ray cluster: what `executor` hands to workers on other machines, and how it comes back."""
