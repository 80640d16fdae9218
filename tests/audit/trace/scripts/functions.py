# ruff: noqa
"""Functions that make models, and some that must not be called."""

import tensorflow as tf


def train():
    raise RuntimeError("train was called")


def run_all():
    raise RuntimeError("run_all was called")


def delete_everything():
    raise RuntimeError("delete_everything was called")


def build_model(units=31):
    return tf.keras.Sequential([tf.keras.Input((20,)), tf.keras.layers.Dense(units)])


def build_pair(width, depth=1):
    return {
        name: tf.keras.Sequential([tf.keras.Input((20,)), tf.keras.layers.Dense(width)]) for name in "ab"[: depth + 1]
    }


def broken_model():
    return tf.keras.Sequential([tf.keras.Input((33,)), tf.keras.layers.Conv2D(8, 3)])


def main():
    train()


if __name__ == "__main__":
    main()
