"""What other rooms may use of this one, a line each."""
