"""Recurrent layers: cuDNN's one op for all time steps, or Keras' loop of small products.

Source: keras/src/layers/rnn and keras/src/backend/tensorflow/rnn.py (cudnn_ok), Keras 3.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.products.passes import InputShapes, Passes, Records, fully_connected, times
from tcprobe.keras.settings import LayerSettings, flag_of, rate_of, size_of, word_of, wrapped_layer
from tcprobe.schema.op import Shape, Size, product


def uses_cudnn(kind: str, config: LayerSettings) -> bool | None:
    """Say whether an LSTM or GRU on a GPU runs in cuDNN; None where a setting it hangs on is not known.

    Source: keras/src/backend/tensorflow/rnn.py, _do_lstm_arguments_support_cudnn and _do_gru_...; a mask that is
    not padded at the right also keeps it off, which settings do not tell.
    """
    needs = class_of(kind).cudnn
    if not needs:
        return False
    answers = [meets(config, name, need) for name, need in needs]
    given = config.get("use_cudnn", "auto")
    answers.append(given is not False if given in ("auto", True, False) else None)
    return False if False in answers else None if None in answers else True


def meets(config: LayerSettings, name: str, need: str | float | bool) -> bool | None:
    """Say whether a setting is what cuDNN needs, which is Keras' default; None where it is not known."""
    value: str | float | None
    if isinstance(need, str):
        value = word_of(config, name, need)
    else:
        value = flag_of(config, name, need) if isinstance(need, bool) else rate_of(config, name)
    return None if value is None else value == need


def recurrent(passes: Passes, kind: str, config: LayerSettings, shapes: InputShapes) -> Records:
    """Return an LSTM, GRU or SimpleRNN, or an RNN around cells of these.

    Where settings do not say whether cuDNN can run it, cuDNN's form is returned.
    """
    shape = shapes[0]
    if shape is None or len(shape) != 3:
        shape = (None, None, None)
    if kind == "RNN":
        return _cells(passes, config, shape)
    if uses_cudnn(kind, config) is not False:
        return _cudnn(passes, kind, size_of(config, "units"), shape)
    return _loop(passes, kind, config, shape, flag_of(config, "unroll", False) is True)


def _cudnn(passes: Passes, kind: str, units: Size, shape: Shape) -> Records:
    """The gradient op computes those of inputs, state and weights at once; its pass says the most it is needed for."""
    batch, steps, inputs = shape
    x, state, out = (steps, batch, inputs), (1, batch, units), (steps, batch, units)
    attributes = {"rnn_mode": kind.lower(), "direction": "unidirectional", "input_mode": "linear_input"}
    found = [(passes.op("CudnnRNNV3", (x, state, state), out, "forward", **attributes), 1.0)]
    if passes.backward:
        pass_ = "wgrad" if passes.weights else "dgrad"
        found.append((passes.op("CudnnRNNBackpropV3", (x, state, state), x, pass_, **attributes), 1.0))
    return found


def _cells(passes: Passes, config: LayerSettings, shape: Shape) -> Records:
    """Return the loops over a cell or a stack of cells, each of which takes the units of the one before."""
    found: Records = []
    unroll = flag_of(config, "unroll", False) is True
    for kind, settings in _stack(config.get("cell")):
        if not class_of(kind).gates:
            return []
        found += _loop(passes, kind, settings, shape, unroll)
        shape, passes = (*shape[:-1], size_of(settings, "units")), passes.inside
    return found


def _stack(cell: Any) -> list[tuple[str, LayerSettings]]:
    if isinstance(cell, list | tuple):
        return [pair for one in cell for pair in _stack(one)]
    inner = wrapped_layer({"cell": cell}, "cell")
    if inner is None:
        return []
    if inner[0] == "StackedRNNCells":
        return _stack(inner[1].get("cells"))
    return [(inner[0].removesuffix("Cell"), inner[1])]


def _loop(passes: Passes, kind: str, config: LayerSettings, shape: Shape, unroll: bool) -> Records:
    """Return the products of one time step, as often as there are steps; of unknown rows where that is not known."""
    batch, steps, inputs = shape
    rows = None if steps is None else batch
    units, gates = size_of(config, "units"), class_of(kind).gates
    of_input, of_state = _products(kind, config, gates)
    count = 1 if steps is None else steps
    found: Records = []
    for width in of_input:
        found += times(_step(passes, (rows, inputs, units), width, of_state=False), steps)
    scaled = kind == "GRU" and flag_of(config, "reset_after", True) is False
    for index, width in enumerate(of_state):
        step = _step(passes.inside, (rows, units, units), width, of_state=True)
        # Unrolled, nothing takes the gradient of the first state, unless a gate has scaled it before the product.
        spared = unroll and not (scaled and index == len(of_state) - 1)
        found += [(record, float(count - (spared and record.pass_ == "dgrad"))) for record, _ in step]
    return [(record, calls) for record, calls in found if calls]


def _products(kind: str, config: LayerSettings, gates: int) -> tuple[list[int], list[int]]:
    """Return how many gates each product of the input and each of the state computes at once."""
    dropped = rate_of(config, "recurrent_dropout")
    if kind != "SimpleRNN" and (config.get("implementation", 2) == 1 or dropped):
        return [1] * gates, [1] * gates
    if kind == "GRU" and flag_of(config, "reset_after", True) is False:
        return [3], [2, 1]
    return [gates], [gates]


def _step(passes: Passes, sizes: tuple[Size, Size, Size], gates: int, of_state: bool) -> Records:
    rows, inputs, units = sizes
    marks = {"gates": gates, "recurrent": of_state}
    found = fully_connected(passes, rows, inputs, product((gates, units)))
    return [(replace(record, attributes={**record.attributes, **marks}), calls) for record, calls in found]
