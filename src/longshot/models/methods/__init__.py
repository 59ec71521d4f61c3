"""Methods: learn from a support set, predict a query set; one file per family, found by name."""
