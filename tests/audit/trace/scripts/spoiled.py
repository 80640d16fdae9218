# ruff: noqa
"""Models with a layer of a package that is missing, and one without."""

import keras
import numpy as np
from a_package_that_nobody_has import Wide

x = y = keras.Input((64,))
x = Wide(250)(x)
outer = keras.Model(y, keras.layers.Dense(8)(x))
outer.compile("adam", "mse")
outer.fit(np.zeros((96, 64)), np.zeros((96, 8)))
inner = keras.Sequential([keras.Input((64,)), keras.layers.Dense(16)])
inner.add(Wide(250))
inner.add(keras.layers.Dense(24))
inner.compile("adam", "mse")
inner.fit(np.zeros((96, 64)), np.zeros((96, 24)))
whole = keras.Sequential([keras.layers.Dense(40)])
whole.compile("adam", "mse")
whole.fit(np.zeros((96, 64)), np.zeros((96, 40)))
