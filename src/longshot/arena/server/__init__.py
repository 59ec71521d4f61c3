"""The competition server: what it does, as plain functions ``function(context, person, …)``, and HTTP over them."""
