"""Conditions under which a command fails (`--fail-if`): read them, and hold runs against them."""
