"""A script that takes its sizes from the command line, each with a default that most runs have."""

import argparse

import numpy as np
from keras import layers, models


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden-units", type=int, default=4090)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--features", type=int, default="1024")
    parser.add_argument("--wide", action="store_true")
    return parser.parse_known_args()[0]


def build(args):
    model = models.Sequential([layers.Input((args.features,))])
    for _ in range(args.depth):
        model.add(layers.Dense(args.hidden_units, activation="relu"))  # expect: TC101 units 4090 -> 4096
    model.add(layers.Dense(2048 if args.wide else 1024))
    return model


args = options()
model = build(args)
model.compile(optimizer="adam", loss="mse")

if __name__ == "__main__":
    x = np.zeros((8192, args.features), "float32")
    model.fit(x, np.zeros((8192, 1024), "float32"), batch_size=4096)
