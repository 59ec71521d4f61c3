"""The competition server: what it does, as plain functions ``function(office, person, …)``, and HTTP over them."""
