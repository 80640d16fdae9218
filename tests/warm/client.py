# The program `python` that `tests.warm` writes; the line before this one names its folder.
import _socket
import array
import json
import os
import signal
import sys
import time


def connect():
    """Connect to the server, which may still be importing TensorFlow."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    for _ in range(6000):
        try:
            connection.connect(FOLDER + "/socket")
        except OSError:
            time.sleep(0.02)
        else:
            return connection
    sys.exit("no server of TensorFlow in " + FOLDER + ": see its log")


def line(connection):
    """Return a line of digits as a number."""
    text = b""
    while not text.endswith(b"\n"):
        got = connection.recv(1)
        if not got:
            sys.exit("the server of TensorFlow in " + FOLDER + " is gone")
        text += got
    return int(text)


def main():
    """Have the arguments run by a fork of the server, and end as it ends."""
    argv = sys.argv[1:]
    if not argv or (argv[0].startswith("-") and argv[0] not in ("-c", "-m")):
        os.execv(sys.executable, [sys.executable, *argv])
    request = {"argv": argv, "cwd": os.getcwd(), "environment": dict(os.environ)}
    text = json.dumps(request).encode() + b"\n"
    connection = connect()
    descriptors = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
    sent = connection.sendmsg([text], [descriptors])
    connection.sendall(text[sent:])
    pid = line(connection)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    status = line(connection)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


main()
