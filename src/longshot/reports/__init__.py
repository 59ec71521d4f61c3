"""Pages, plots and tables made from results alone."""
