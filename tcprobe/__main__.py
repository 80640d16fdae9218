"""Entry point of the command line: runs a verb and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys

from tcprobe.errors import TcprobeError


def main() -> int:
    """Run the command line and return the exit code.

    0 success, 2 a `TcprobeError`, 3 a bug in tcprobe, 130 interrupted; a verb may exit with another code
    (1 for findings, or the code of a workload that failed).
    """
    from tcprobe.cli.app import application

    try:
        application(sys.argv[1:])()
    except TcprobeError as error:
        return _fail(error)
    except KeyboardInterrupt:
        print("tcprobe: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from tcprobe.cli.crash import report_bug

        return report_bug(error)
    return 0


def _fail(error: TcprobeError) -> int:
    from tcprobe.cli.options import without_secrets

    print(f"tcprobe: error: {without_secrets(error.message)}", file=sys.stderr)
    if error.hint:
        print(f"hint: {without_secrets(error.hint)}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
