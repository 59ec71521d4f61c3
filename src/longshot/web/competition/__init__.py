"""The competition server: HTTP over ``longshot.competition.services``, in the explorer's application stack."""
