"""Where work runs: threads of this process, or the workers of a Ray cluster. Rooms cut work into units and do not know.

``with_executor`` lets the parameter ``on`` of a verb hold for all that it does, ``executor()`` is what computes now,
``Crew`` says what every worker holds, ``UnitsFailed`` what could not be computed anywhere.
"""
