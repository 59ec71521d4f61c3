"""Networks with plain definitions, and the files they are kept in."""
