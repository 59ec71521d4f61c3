"""What every study shares: recipes, settings, the folder, drawing, training, tables and figures."""
