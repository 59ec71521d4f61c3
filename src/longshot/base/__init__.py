"""What every room may use: errors, files, settings, progress, ragged lists, tasks, devices."""
