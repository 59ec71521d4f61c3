"""Studies: the papers' protocols as recipes, a YAML preset with a plain function each."""
