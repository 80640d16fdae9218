"""Trace functions with loops, and print what the walk says of each: `python walks.py OUT` writes one JSON object.

Each function is named after what it holds; its value is a list of [number, at least, in a loop of steps] of the
products that live.
"""

import importlib.util
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROBE = os.path.join(HERE, *[os.pardir] * 5, "tcprobe", "probe")
spec = importlib.util.spec_from_file_location(
    "tcprobe_probe", os.path.join(PROBE, "__init__.py"), submodule_search_locations=[PROBE]
)
sys.modules["tcprobe_probe"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)

import tensorflow as tf  # noqa: E402
from tcprobe_probe.tensorflow.graph.walk import walk  # noqa: E402

FIVE = tf.constant(5)
COUNTER = tf.Variable(0, dtype=tf.int64)
OPEN = tf.TensorSpec([None, 8], tf.float32)


def up(x, number):
    """Multiply as often as a range is long."""
    h = x
    for _ in tf.range(number):
        h = tf.matmul(h, x)
    return h


def limit(x):
    """A number."""
    return up(x, 4)


def captured_limit(x):
    """A tensor from outside."""
    return up(x, FIVE)


def limit_of_the_batch(x):
    """The rows of an argument whose size the trace leaves open."""
    return up(x, tf.shape(x)[0])


def limit_of_a_width(x):
    """A size that the trace knows, beside one that it leaves open."""
    return up(x, tf.shape(x)[1])


def limit_of_data(x):
    """A number that is computed."""
    return up(x, tf.cast(tf.reduce_sum(x), tf.int32))


def steps_of_three(x):
    """A range with a step: 1, 4, 7."""
    h = x
    for _ in tf.range(1, 10, 3):
        h = tf.matmul(h, x)
    return h


def downwards(x):
    """A counter that falls: 7, 4, 1."""
    h, i = x, tf.constant(7)
    while i > 0:
        h = tf.matmul(h, x)
        i -= 3
    return h


def either(x):
    """Two conditions that both tell: the second ends it."""
    h, i = x, tf.constant(0)
    while tf.logical_and(i < 9, i <= 4):
        h = tf.matmul(h, x)
        i += 1
    return h


def broken_off(x):
    """A loop that the data may end."""
    h = x
    for _ in tf.range(4):
        h = tf.matmul(h, x)
        if tf.reduce_sum(h) > 3.0:
            break
    return h


def both_ways(x):
    """A loop in a loop, and the gradient of both: limits of the inner one's are taken back from a stack."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = x
        for _ in tf.range(3):
            h = up(h, 2)
    return tape.gradient(h, x)


def starts_to_hold(x):
    """A condition that begins to hold once the counter is large, beside one that the data end."""
    return tf.while_loop(lambda i, h: i > 3 or tf.reduce_sum(h) < 9.0, lambda i, h: (i + 1, tf.matmul(h, x)), (0, x))[1]


def sum_of_the_turns(x):
    """A variable that grows by another: no counter."""
    h, i, total = x, tf.constant(0), tf.constant(0)
    while total < 9:
        i += 1
        total += i
        h = tf.matmul(h, x)
    return h


def endless(x):
    """A counter that falls away from its limit, until the data end it."""
    return tf.while_loop(
        lambda i, h: tf.logical_and(i < 3, tf.reduce_sum(h) < 9.0), lambda i, h: (i - 1, tf.matmul(h, x)), (0, x)
    )[1]


def triangle(x):
    """An inner loop whose limit is the outer one's counter."""
    h = x
    for i in tf.range(3):
        h = up(h, i)
    return h


def condition_of_a_loop(x):
    """A product in the condition runs once more than the loop turns."""
    return tf.while_loop(
        lambda i, h: tf.logical_and(i < 3, tf.matmul(h, h)[0, 0] < 1e9), lambda i, h: (i + 1, h), (0, x)
    )[1]


def gradient_of_data(x):
    """A loop of unknown length, and its gradient."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = x
        while tf.reduce_sum(h) < 9.0:
            h = tf.matmul(h, x)
    return tape.gradient(h, x)


def nobody_reads(x):
    """Of two variables that loop, the second needs the first, and nobody needs the second."""
    h = unread = x
    for _ in tf.range(4):
        h = tf.matmul(h, x)
        unread = tf.matmul(unread, x) + h
    return h


def each_needs_the_other(x):
    """Of two variables that loop, one is given back."""
    h = other = x
    for _ in tf.range(4):
        h, other = tf.matmul(other, x), tf.matmul(h, x)
    return h


def known_branch(x):
    """A branch that always runs, and one that never does."""
    return tf.cond(FIVE > 3, lambda: tf.matmul(x, x), lambda: tf.matmul(x, tf.transpose(x)))


def unknown_branch(x):
    """A branch that the data chooses."""
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.matmul(x, x), lambda: x)


def asks_again(x):
    """A branch on what the loop's own condition asks of the same numbers."""

    def small(i, h):
        return tf.logical_and(i < 3, tf.reduce_sum(h) < 1e9)

    def turn(i, h):
        return i + 1, tf.cond(small(i, h), lambda: tf.matmul(h, x), lambda: h)

    return tf.while_loop(small, turn, (0, x))[1]


def asks_later(x):
    """The same of the next numbers, and of chance: the answers may be others."""

    def small(i, h):
        return tf.logical_and(i < 3, tf.reduce_sum(h) < tf.random.uniform(()))

    def turn(i, h):
        h = tf.cond(small(i, h), lambda: tf.matmul(h, x), lambda: h)
        return i + 1, tf.cond(i + 1 < 3, lambda: tf.matmul(h, x), lambda: h)

    return tf.while_loop(small, turn, (0, x))[1]


def over_a_dataset(x):
    """A dataset of the graph's own: only TensorFlow knows its length."""
    h = x
    for _ in tf.data.Dataset.from_tensor_slices(x).batch(3).repeat(2).take(5):
        h = tf.matmul(h, x)
    return h


def over_unknown_data(x):
    """A dataset whose length nobody knows, and no step in it."""
    h = x
    for _ in tf.data.Dataset.range(9).filter(lambda i: i > 3):
        h = tf.matmul(h, x)
    return h


def steps_over_unknown_data(x):
    """The same with a counter of steps, and a loop inside."""
    for _ in tf.data.Dataset.range(9).filter(lambda i: i > 3):
        COUNTER.assign_add(1)
        tf.print(tf.reduce_sum(up(x, 2)), output_stream="file://" + os.devnull)
    return x


def two_loops_of_steps(x):
    """Two of these: which makes how many of the steps is unknown."""
    return steps_over_unknown_data(steps_over_unknown_data(x))


found = {}
mine = [value for value in list(globals().values()) if getattr(value, "__module__", None) == __name__]
for function in [value for value in mine if value is not up]:
    spec = OPEN if function in (limit_of_the_batch, limit_of_a_width) else tf.TensorSpec([8, 8], tf.float32)
    graph = tf.function(function).get_concrete_function(spec).graph
    lives = [visit.site.times for visit in walk(graph) if visit.live]
    found[function.__name__] = [[t.number, t.at_least, t.steps_loop is not None] for t in lives]
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
