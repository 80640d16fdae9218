"""Record one training step: ``python FOLDER orders.json``, where FOLDER is this package.

Runs in a framework's own interpreter, where tcprobe need not be installed: it needs only the framework, the standard
library and Python 3.8. `base.Session` says what a framework must offer; `record` times and records its steps.
"""
