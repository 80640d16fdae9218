"""Which function or method follows which rule of shapes: NumPy's, TensorFlow's and Keras' names side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Final, TypeAlias

from tcprobe.audit.source.arrays import call, elementwise, joins, layout, products
from tcprobe.audit.source.arrays.call import ArrayCall
from tcprobe.audit.source.arrays.layout import reshaped
from tcprobe.audit.source.kinds import Arguments, Items, SourceValue, Tensor
from tcprobe.audit.source.values import dimensions

Rule: TypeAlias = Callable[[ArrayCall], SourceValue | None]

# One line: libraries, positional parameters by our names (`*`: any more), names. A name may stand in several lines
# where libraries differ. Source: NumPy 2.4, TensorFlow 2.21, Keras 3.15.1; names that are gone are kept.
_TABLE: Final[dict[Rule, str]] = {
    elementwise.filled: """\
tf,ops,np,K shape: zeros ones empty fill full
tf dtype shape: placeholder compat.v1.placeholder
K shape: placeholder
tf,ops shape: random.normal random.uniform random.truncated_normal random_normal random_uniform truncated_normal \
    random.stateless_normal random.stateless_uniform random.stateless_truncated_normal random.poisson
ops low high shape: random.randint
K shape: random_normal random_uniform truncated_normal random_bernoulli random_binomial zeros ones
np low high shape: random.uniform random.normal random.randint random.random_integers random.integers random.laplace \
    random.gumbel random.logistic random.lognormal random.beta random.gamma random.binomial random.vonmises
np low shape: random.poisson random.exponential random.choice random.rayleigh random.geometric
np shape: random.random random.random_sample random.ranf random.sample random.standard_normal""",
    elementwise.of_dimensions: "np *: random.rand random.randn",
    elementwise.counted: "tf,ops,np,K start stop step: range arange",
    elementwise.spaced: "tf,ops,np start stop num: linspace logspace geomspace",
    elementwise.identity_matrix: "np,ops n m: eye identity\ntf n m batch_shape: eye\nK n: eye",
    elementwise.literal: """\
tf,ops,np,K x: array asarray ascontiguousarray asanyarray convert_to_tensor
tf x dtype shape: constant
K x dtype shape: constant""",
    elementwise.variable: "tf,K x: Variable variable",
    elementwise.weight: "tf name shape: get_variable compat.v1.get_variable",
    elementwise.kept: """\
tf,ops,np,K x: cast stop_gradient to_float to_int32 float32 float64 float16 int32 int64 uint8
tf,ops,K x: identity""",
    elementwise.same: """\
tf,ops,np,K x: relu relu6 gelu elu selu silu swish sigmoid tanh softmax log_softmax softplus softsign leaky_relu \
    hard_sigmoid hard_silu hard_swish mish log_sigmoid celu exponential linear exp expm1 log log1p log10 log2 sqrt \
    rsqrt square abs absolute negative sign floor ceil round rint sin cos tan asin acos atan arcsin arccos arctan sinh \
    cosh erf erfc reciprocal invert logical_not isnan isinf isfinite l2_normalize clip clip_by_value clip_by_norm \
    zeros_like ones_like empty_like full_like random.shuffle random.permutation reverse flip roll \
    ensure_shape dropout bias_add check_numerics copy sort argsort band_part tril triu nan_to_num normalize \
    adjust_brightness adjust_contrast random_flip_left_right random_flip_up_down flip_left_right flip_up_down \
    per_image_standardization random_brightness random_contrast batch_normalization local_response_normalization \
    fliplr flipud real imag conj angle fftshift ifftshift lgamma digamma
tf,ops,K x: cumsum cumprod""",
    elementwise.met: """\
tf,ops,np,K a b *: add subtract multiply divide true_divide floordiv floor_divide mod floormod power pow maximum \
    minimum squared_difference equal not_equal greater greater_equal less less_equal logical_and logical_or \
    logical_xor atan2 arctan2 divide_no_nan truediv
tf,ops,np c a b: where select""",
    elementwise.converted: """\
tf x depth on off axis: one_hot
ops x depth axis: one_hot
K x depth: one_hot to_categorical""",
    layout.reshape: "tf,ops,np,K x shape: reshape",
    layout.transpose: "tf,ops,np,K x axes: transpose permute_dimensions",
    layout.swapped: "tf,ops,np x axis1 axis2: swapaxes",
    layout.moved: "tf,ops,np x axis1 axis2: moveaxis",
    layout.expand: "tf,ops,np,K x axis: expand_dims",
    layout.squeeze: "tf,ops,np,K x axis: squeeze",
    layout.flatten: "ops,np,K x: ravel flatten batch_flatten",
    layout.space_to_depth: "tf x block: space_to_depth depth_to_space",
    joins.concatenate: "tf,ops,np,K x axis: concat concatenate",
    joins.stack: "tf,ops,np,K x axis: stack",
    joins.split: "tf,ops,np x parts axis: split",
    joins.unstack: "tf,ops x num axis: unstack",
    joins.tile: "tf,ops,np,K x times: tile",
    joins.repeat: "tf,ops,np,K x times axis: repeat repeat_elements",
    joins.repeat_rows: "K x times: repeat",
    joins.pad: "tf,ops,np x pads: pad",
    joins.spread: "tf,ops,np x shape: broadcast_to",
    elementwise.reduced: """\
tf,ops,K x axis keepdims: reduce_sum reduce_mean reduce_max reduce_min reduce_prod reduce_any reduce_all reduce_std \
    reduce_variance reduce_logsumexp logsumexp sum mean max min amax amin prod any all std var count_nonzero
np x axis out keepdims: max min amax amin any all
np x axis dtype out keepdims: sum mean prod
np x axis dtype out ddof keepdims: std var
np x axis: median
tf,np,ops x ord axis keepdims: norm""",
    elementwise.picked: "tf,ops,np,K x axis: argmax argmin",
    elementwise.moments: "tf x axis shift keepdims: moments\nops x axis keepdims: moments",
    elementwise.largest: "tf,ops x k: top_k",
    products.matmul: "tf,ops,np a b transpose_a transpose_b: matmul",
    products.dot: "np,ops,K a b: dot",
    products.tensordot: "tf,ops,np a b axes: tensordot",
    products.einsum: "tf,ops,np equation *: einsum",
    layout.gather: """\
tf x indices validate_indices axis batch_dims: gather
tf x indices: embedding_lookup
K x indices: gather
ops,np x indices axis: take""",
    layout.masked: "tf x depth: sequence_mask",
    layout.padded: "K x depth: pad_sequences",
    layout.resized: """\
tf,ops x size: resize resize_images resize_bilinear resize_nearest_neighbor resize_bicubic resize_area""",
    layout.pooled: """\
tf x ksize strides padding data_format: max_pool max_pool1d max_pool2d max_pool3d avg_pool avg_pool1d avg_pool2d \
    avg_pool3d
ops x ksize strides padding data_format: max_pool average_pool""",
    layout.convolved: """\
tf x filters strides padding: conv1d conv2d conv3d convolution
ops x filters strides padding data_format dilations: conv""",
    layout.scaled: "K x height_factor width_factor data_format: resize_images",
    call.shape: "tf,ops,np,K x: shape int_shape",
    call.rank: "tf,np,K x: rank ndim",
}
_ALIASES: Final = {
    name: ours
    for ours, names in {
        "x": "a A arr array arrays ary data features image images img input inputs input_tensor logits m object onehot "
        "params param prompt tensor tensors value values v xs initial_value labels lengths",
        "shape": "dims size newshape new_shape output_shape target_shape",
        "axes": "perm pattern",
        "axis": "dim axes reduction_indices",
        "keepdims": "keep_dims",
        "stop": "limit end",
        "step": "delta",
        "num": "num_samples",
        "n": "num_rows N",
        "m": "num_columns M",
        "times": "multiples reps rep repeats",
        "parts": "num_or_size_splits indices_or_sections",
        "pads": "paddings pad_width",
        "depth": "num_classes maxlen",
        "block": "block_size",
        "ksize": "pool_size",
        "filters": "filter kernel",
        "strides": "stride",
        "dilations": "dilation_rate",
        "indices": "ids",
        "a": "x1 x",
        "c": "condition",
        "b": "x2 y",
        "axis1": "source",
        "axis2": "destination",
    }.items()
    for name in names.split()
}
"""What the libraries call an argument by keyword, and what it is called here."""
_LIBRARIES: Final = (
    ("np", re.compile(r"(?:numpy|jax\.numpy|tensorflow\.experimental\.numpy|cupy)\.(.+)")),
    ("ops", re.compile(r"keras\.(?:ops(?:\.numpy|\.nn|\.image|\.linalg)?|activations|src\.ops)\.(.+)")),
    ("ops", re.compile(r"keras\.(random\..+)")),
    ("K", re.compile(r"keras\.(?:backend|utils|preprocessing\.sequence)\.(.+)")),
    ("tf", re.compile(r"tensorflow\.(?:compat\.v[12]\.|(?:math|nn|linalg|image|signal|debugging|sparse)\.)*(.+)")),
)


def array_function(name: str, given: Arguments) -> SourceValue | None:
    """Return the result of a function on arrays; None where it is none, or nothing is known of its result.

    Args:
        name: of the function, canonical.
        given: what it is passed.
    """
    found = rule_of(name, given)
    return found[0](found[1]) if found is not None else None


def rule_of(name: str, given: Arguments) -> tuple[Rule, ArrayCall] | None:
    """Return the rule that a function on arrays follows, and its call; None where it is no such function."""
    row = _row(name)
    return (row[2], _bound(row[0], row[1], row[3], given)) if row is not None else None


@lru_cache(maxsize=4096)
def _row(name: str) -> tuple[str, str, Rule, tuple[str, ...]] | None:
    """Return library, name in it, rule and parameters of a function."""
    matches = ((library, pattern.fullmatch(name)) for library, pattern in _LIBRARIES)
    library, last = next(((library, found[1]) for library, found in matches if found), ("", ""))
    row = _rules().get((library, last))
    return (library, last, *row) if row is not None else None


def _bound(library: str, last: str, parameters: tuple[str, ...], given: Arguments) -> ArrayCall:
    """Return a call with its arguments under our names."""
    names = [name for name in parameters if name != "*"]
    values = dict(zip(names, given.args, strict=False))
    for keyword, value in given.keywords.items():
        values.setdefault(keyword if keyword in names else _ALIASES.get(keyword, keyword), value)
    return ArrayCall(library, last.rpartition(".")[2], values, given.args[len(names) :])


@cache
def _rules() -> dict[tuple[str, str], tuple[Rule, tuple[str, ...]]]:
    """Return rule and parameters of each name of each library."""
    found: dict[tuple[str, str], tuple[Rule, tuple[str, ...]]] = {}
    for rule, text in _TABLE.items():
        for libraries, parameters, names in _lines(text):
            for library in libraries:
                for name in names:
                    found[library, name] = (rule, parameters)
    return found


def _lines(text: str) -> Iterator[tuple[list[str], tuple[str, ...], list[str]]]:
    for line in text.splitlines():
        head, _, names = line.partition(":")
        libraries, *parameters = head.split()
        yield libraries.split(","), tuple(parameters), names.split()


_SAME: Final = ("astype", "copy", "numpy", "clip", "round", "read_value", "value", "fillna", "block_until_ready")
_LISTS: Final = ("reshape", "transpose")
_SHAPES: Final = ("get_shape", "shape")
_FUNCTIONS: Final = (
    "sum", "mean", "max", "min", "prod", "std", "var", "any", "all", "argmax", "argmin", "squeeze", "flatten", "ravel",
    "repeat", "swapaxes", "cumsum", "take", "dot",
)  # fmt: skip


def array_method(of: Tensor, name: str, given: Arguments) -> SourceValue | None:
    """Return the result of a method of an array or tensor; None where nothing is known of it."""
    args = given.args
    if name in _SAME:
        return of
    if name in _SHAPES:
        return dimensions(of)
    if name in _LISTS and args:
        args = [args[0] if len(args) == 1 else Items(args)]
    if name == "reshape":
        return reshaped(of, args[0]) if args else None
    if name in _FUNCTIONS or name == "transpose":
        return array_function(f"numpy.{name}", Arguments([of, *args], given.keywords, given.lacking))
    return None
