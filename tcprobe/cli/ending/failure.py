"""Tell a failure that the user can act on, without the secrets of the command line."""

from __future__ import annotations

from tcprobe.errors import TcprobeError
from tcprobe.masking import without_secrets
from tcprobe.visible import say, tell


def say_failure(error: TcprobeError) -> int:
    """Say what failed, and what to do about it; return its exit code."""
    say(f"error: {without_secrets(error.message)}")
    if error.hint:
        tell(f"hint: {without_secrets(error.hint)}")
    return error.exit_code
