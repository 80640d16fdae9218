"""Run scripts under the graph recorder alone, with TensorFlow's profiler on for a few training calls.

`python driver.py OUT "script.py ARGS" ...` writes graph.json, gaps.json and the profile of each script to
`OUT/<number>`. It needs TensorFlow and nothing else, so that it runs in any interpreter (Python 3.8 or later).
"""

import collections
import functools
import importlib.util
import json
import os
import runpy
import shlex
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
HERE = os.path.dirname(os.path.abspath(__file__))
PROBE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(HERE)))), "tcprobe", "probe")
FIRST, LAST = 4, 6  # training calls that are profiled, both included


def load_probe():
    """Import the probe's folder as a package of its own, as a run folder does."""
    spec = importlib.util.spec_from_file_location(
        "tcprobe_probe", os.path.join(PROBE, "__init__.py"), submodule_search_locations=[PROBE]
    )
    sys.modules["tcprobe_probe"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from tcprobe_probe.core.gaps import Gaps
    from tcprobe_probe.tensorflow.graph.recorder import GraphRecorder

    return Gaps, GraphRecorder


class Driver:
    """What the runtime does for the recorder, without steps."""

    def __init__(self, tf, recorder, raw):
        self.tf, self.recorder, self.raw = tf, recorder, raw
        self.depth, self.known, self.training, self.calls = 0, {}, set(), 0
        self.profiling = self.profiled = False
        recorder.on_training = self.trains
        self.undo = []

    def trains(self, key):
        self.training.add(key)
        self.recorder.training(key)

    def install(self):
        function = type(self.tf.function(lambda: None))
        self.patch(function, "__call__", self.calling)
        self.patch(self.tf.GradientTape, "gradient", self.taping)

    def patch(self, owner, name, make):
        original = getattr(owner, name)
        self.undo.append((owner, name, original))
        setattr(owner, name, functools.wraps(original)(make(original)))

    def remove(self):
        self.window(stop=True)
        for owner, name, original in reversed(self.undo):
            setattr(owner, name, original)

    def window(self, stop=False):
        if not self.profiling and not self.profiled and not stop and self.calls == FIRST:
            self.profiling = self.profiled = True
            self.tf.profiler.experimental.start(self.raw)
        elif self.profiling and (stop or self.calls > LAST):
            self.profiling = False
            self.tf.profiler.experimental.stop()

    def calling(self, original):
        def __call__(function, *args, **kwds):
            if self.depth or not self.tf.executing_eagerly():
                return original(function, *args, **kwds)
            key = id(function)
            if key in self.training:
                self.window()
                self.calls += 1
            self.depth = 1
            first = None
            if key not in self.known:
                self.known[key] = function
                python = function.python_function
                first = function, "%s.%s" % (python.__module__, python.__qualname__)
            self.recorder.begin(key, args, kwds, first)
            try:
                return original(function, *args, **kwds)
            finally:
                self.depth = 0
                self.recorder.end()

        return __call__

    def taping(self, original):
        def gradient(tape, *args, **kwds):
            if self.depth or not self.tf.executing_eagerly() or self.training:
                return original(tape, *args, **kwds)
            self.window()
            self.calls += 1
            try:
                return original(tape, *args, **kwds)
            finally:
                self.sample_next()

        return gradient

    def sampled(self, sample):
        from tcprobe_probe.tensorflow.eager.parts import Body

        ops = [op.record for op in sample.products]
        self.recorder.store.keep_part(0, "eager", [Body(ops, collections.Counter(), 1.0)])

    def sample_next(self):
        """Sample the second eager step: from the end of the first tape's gradient to that of the next."""
        if self.calls == 1:
            self.sampling = self.recorder.sampler(self.sampled)
            self.sampling.start()
        elif self.calls == 2:
            self.sampling.stop()


def run(command, out, tf, gaps_class, recorder_class):
    os.makedirs(out, exist_ok=True)
    gaps = gaps_class()
    recorder = recorder_class(out, gaps)
    recorder.on_tensorflow(tf)
    recorder.on_keras(tf.keras)
    driver = Driver(tf, recorder, os.path.join(out, "raw"))
    driver.install()
    script, *sys.argv[1:] = shlex.split(command)
    error = None
    try:
        runpy.run_path(os.path.join(HERE, "workloads", script), run_name="__main__")
    except Exception:
        error = traceback.format_exc()
    driver.remove()
    recorder.write()
    recorder.stop()
    with open(os.path.join(out, "gaps.json"), "w") as file:
        json.dump({"gaps": gaps.gaps, "notes": gaps.notes, "error": error}, file)


def main():
    out, commands = sys.argv[1], sys.argv[2:]
    gaps_class, recorder_class = load_probe()
    import tensorflow as tf

    for number, command in enumerate(commands):
        run(command, os.path.join(out, str(number)), tf, gaps_class, recorder_class)


main()
