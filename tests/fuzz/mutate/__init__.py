"""Mutators: functions that change the bytes of a file by chance, each knowing one kind of file."""
