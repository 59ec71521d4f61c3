"""The competition server: HTTP over ``longshot.arena.services``, in the explorer's application stack."""
