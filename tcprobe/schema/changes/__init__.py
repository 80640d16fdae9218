"""What a change of a run would do, as predicted, or did, as measured."""
