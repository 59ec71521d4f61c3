"""What a competition server does, as plain functions: ``function(office, person, …)``. HTTP lives in ``web``."""
