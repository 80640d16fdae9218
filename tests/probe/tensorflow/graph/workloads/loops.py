"""Loops whose turns are known, and some that the data ends: its argument names one."""

import sys

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
kind = sys.argv[1]
ROWS, WIDTH, STEPS = 8, 16, 8


class Cell(layers.Layer):
    """A cell of the user's own: two products a time step."""

    def __init__(self):
        super().__init__()
        self.state_size = self.output_size = 6

    def build(self, shape):
        """Make the weights."""
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], 6))
        self.recurrent = self.add_weight(name="recurrent", shape=(6, 6))

    def call(self, inputs, states):
        """Take a step."""
        output = tf.matmul(inputs, self.kernel) + tf.matmul(states[0], self.recurrent)
        return output, [output]


MODELS = {
    "bidirectional": ((20, 16), lambda: [
        layers.Bidirectional(layers.LSTM(8, return_sequences=True)), layers.Bidirectional(layers.LSTM(8)),
        layers.Dense(1)]),
    "addition": ((7, 12), lambda: [
        layers.LSTM(8), layers.RepeatVector(4), layers.LSTM(8, return_sequences=True), layers.Dense(5)]),
    "own_cell": ((7, 12), lambda: [layers.RNN(Cell()), layers.Dense(5)]),
}  # fmt: skip


def fit():
    """Train a recurrent model."""
    shape, made = MODELS[kind]
    model = keras.Sequential([keras.Input(shape), *made()])
    model.compile("sgd", "mse")
    x = tf.random.normal((ROWS * STEPS, *shape))
    y = tf.zeros((ROWS * STEPS, *model.output_shape[1:]))
    model.fit(x, y, batch_size=ROWS, verbose=0)


weight = tf.Variable(tf.random.normal((WIDTH, WIDTH)) * 0.1)
optimizer = keras.optimizers.SGD(0.01)
if hasattr(optimizer, "build"):
    optimizer.build([weight])


def gradient(x, forward):
    """Return the gradient of the weight."""
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(forward(x) ** 2)
    return tape.gradient(loss, weight)


def accumulate(x):
    """Add the gradients of four parts, and apply them once."""
    total = tf.zeros_like(weight)
    for i in tf.range(4):
        total += gradient(x[2 * i : 2 * i + 2], lambda part: tf.matmul(part, weight))
    optimizer.apply_gradients([(total, weight)])


def nested(x):
    """Multiply 3 x 2 times, there and back."""

    def forward(h):
        for _ in tf.range(3):
            for _ in tf.range(2):
                h = tf.matmul(h, weight)
        return h

    optimizer.apply_gradients([(gradient(x, forward), weight)])


def by_data(x):
    """Multiply for as long as the data says, and once more where it says so."""

    def forward(h):
        while tf.reduce_sum(h * h) > 1e-3:
            h = tf.matmul(h, weight)
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.matmul(h, weight), lambda: h)

    optimizer.apply_gradients([(gradient(x, forward), weight)])


def mapped(x):
    """Multiply each row by itself, and scan them."""

    def forward(rows):
        rows = tf.map_fn(lambda row: tf.matmul(row[None], weight)[0], rows)
        return tf.scan(lambda state, row: tf.matmul(row[None], weight)[0] + state, rows, tf.zeros((WIDTH,)))

    optimizer.apply_gradients([(gradient(x, forward), weight)])


def train():
    """Train with a loop inside the step."""
    step = tf.function({"accumulate": accumulate, "nested": nested, "by_data": by_data, "mapped": mapped}[kind])
    for _ in range(STEPS):
        step(tf.random.normal((ROWS, WIDTH)))


fit() if kind in MODELS else train()
