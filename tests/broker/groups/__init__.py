"""Group state machines, by transcripts and against a coordinator."""
