"""Keras' public names: one canonical name for each, and how its positional arguments are called.

Source: Keras 3.15.1, `inspect.signature` of every class of `keras.layers` (parameters up to the initializers);
TensorFlow 2.21 for the functions. Names that are gone from Keras 3 are kept: old files use them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

ALIASES: Final = {
    "AvgPool1D": "AveragePooling1D",
    "AvgPool2D": "AveragePooling2D",
    "AvgPool3D": "AveragePooling3D",
    "Convolution1D": "Conv1D",
    "Convolution1DTranspose": "Conv1DTranspose",
    "Convolution2D": "Conv2D",
    "Convolution2DTranspose": "Conv2DTranspose",
    "Convolution3D": "Conv3D",
    "Convolution3DTranspose": "Conv3DTranspose",
    "GlobalAvgPool1D": "GlobalAveragePooling1D",
    "GlobalAvgPool2D": "GlobalAveragePooling2D",
    "GlobalAvgPool3D": "GlobalAveragePooling3D",
    "GlobalMaxPool1D": "GlobalMaxPooling1D",
    "GlobalMaxPool2D": "GlobalMaxPooling2D",
    "GlobalMaxPool3D": "GlobalMaxPooling3D",
    "GroupQueryAttention": "GroupedQueryAttention",
    "MaxPool1D": "MaxPooling1D",
    "MaxPool2D": "MaxPooling2D",
    "MaxPool3D": "MaxPooling3D",
    "SeparableConvolution1D": "SeparableConv1D",
    "SeparableConvolution2D": "SeparableConv2D",
}

_LAYERS: Final = """\
Activation activation
ActivityRegularization l1 l2
AdaptiveAveragePooling1D output_size data_format
AdaptiveAveragePooling2D output_size data_format
AdaptiveAveragePooling3D output_size data_format
AdaptiveMaxPooling1D output_size data_format
AdaptiveMaxPooling2D output_size data_format
AdaptiveMaxPooling3D output_size data_format
Add
AdditiveAttention use_scale dropout
AlphaDropout rate noise_shape seed
Attention use_scale score_mode dropout seed
AugMix value_range num_chains chain_depth factor alpha all_ops interpolation seed data_format
AutoContrast value_range
Average
AveragePooling1D pool_size strides padding data_format name
AveragePooling2D pool_size strides padding data_format name
AveragePooling3D pool_size strides padding data_format name
BatchNormalization axis momentum epsilon center scale
Bidirectional layer merge_mode weights backward_layer
CategoryEncoding num_tokens output_mode sparse
CenterCrop height width data_format
Concatenate axis
ContrastLimitedAdaptiveHistogramEqualization value_range clip_limit tile_grid_size data_format
Conv1D filters kernel_size strides padding data_format dilation_rate groups activation use_bias
Conv1DTranspose filters kernel_size strides padding output_padding data_format dilation_rate activation use_bias
Conv2D filters kernel_size strides padding data_format dilation_rate groups activation use_bias
Conv2DTranspose filters kernel_size strides padding output_padding data_format dilation_rate activation use_bias
Conv3D filters kernel_size strides padding data_format dilation_rate groups activation use_bias
Conv3DTranspose filters kernel_size strides padding data_format output_padding dilation_rate activation use_bias
ConvLSTM1D filters kernel_size strides padding data_format dilation_rate activation recurrent_activation use_bias
ConvLSTM2D filters kernel_size strides padding data_format dilation_rate activation recurrent_activation use_bias
ConvLSTM3D filters kernel_size strides padding data_format dilation_rate activation recurrent_activation use_bias
Cropping1D cropping
Cropping2D cropping data_format
Cropping3D cropping data_format
CutMix factor seed data_format
Dense units activation use_bias
DepthwiseConv1D kernel_size strides padding depth_multiplier data_format dilation_rate activation use_bias
DepthwiseConv2D kernel_size strides padding depth_multiplier data_format dilation_rate activation use_bias
Discretization bin_boundaries num_bins epsilon output_mode sparse dtype name
Dot axes normalize
Dropout rate noise_shape seed
ELU alpha
EinsumDense equation output_shape activation bias_axes
Embedding input_dim output_dim
Equalization value_range bins data_format
Flatten data_format
FlaxLayer module method variables
GRU units activation recurrent_activation use_bias
GRUCell units activation recurrent_activation use_bias
GaussianDropout rate seed
GaussianNoise stddev seed
GlobalAveragePooling1D data_format keepdims
GlobalAveragePooling2D data_format keepdims
GlobalAveragePooling3D data_format keepdims
GlobalMaxPooling1D data_format keepdims
GlobalMaxPooling2D data_format keepdims
GlobalMaxPooling3D data_format keepdims
GroupNormalization groups axis epsilon center scale
HashedCrossing num_bins output_mode sparse name dtype
Hashing num_bins mask_value salt output_mode sparse
Identity
InputLayer shape batch_size dtype sparse ragged batch_shape input_tensor optional name
IntegerLookup max_tokens num_oov_indices mask_token oov_token vocabulary vocabulary_dtype
JaxLayer call_fn init_fn params state seed native_serialization_platforms
LSTM units activation recurrent_activation use_bias
LSTMCell units activation recurrent_activation use_bias
Lambda function output_shape mask arguments
LayerNormalization axis epsilon center scale
LeakyReLU negative_slope
Masking mask_value
MaxNumBoundingBoxes max_number fill_value
MaxPooling1D pool_size strides padding data_format name
MaxPooling2D pool_size strides padding data_format name
MaxPooling3D pool_size strides padding data_format name
Maximum
MelSpectrogram fft_length sequence_stride sequence_length window sampling_rate num_mel_bins
Minimum
MixUp alpha data_format seed
MultiHeadAttention num_heads key_dim value_dim dropout use_bias output_shape attention_axes
Multiply
Normalization axis mean variance invert
PReLU alpha_initializer alpha_regularizer alpha_constraint shared_axes
Permute dims
Pipeline layers name
RMSNormalization axis epsilon
RNN cell return_sequences return_state go_backwards stateful unroll zero_output_for_mask
RandAugment value_range num_ops factor interpolation seed data_format
RandomBrightness factor value_range seed
RandomColorDegeneration factor value_range data_format seed
RandomColorJitter value_range brightness_factor contrast_factor saturation_factor hue_factor seed data_format
RandomContrast factor value_range seed
RandomCrop height width seed data_format name
RandomElasticTransform factor scale interpolation fill_mode fill_value value_range seed data_format
RandomErasing factor scale fill_value value_range seed data_format
RandomFlip mode seed data_format
RandomGaussianBlur factor kernel_size sigma value_range data_format seed
RandomGrayscale factor data_format seed
RandomHue factor value_range data_format seed
RandomInvert factor value_range seed data_format
RandomPerspective factor scale interpolation fill_value seed data_format
RandomPosterization factor value_range data_format seed
RandomRotation factor fill_mode interpolation seed fill_value data_format
RandomSaturation factor value_range data_format seed
RandomSharpness factor value_range data_format seed
RandomShear x_factor y_factor interpolation fill_mode fill_value data_format seed
RandomTranslation height_factor width_factor fill_mode interpolation seed fill_value data_format
RandomZoom height_factor width_factor fill_mode interpolation seed fill_value data_format
ReLU max_value negative_slope threshold
RepeatVector n
Rescaling scale offset
Reshape target_shape
Resizing height width interpolation crop_to_aspect_ratio pad_to_aspect_ratio fill_mode fill_value antialias data_format
ReversibleEmbedding input_dim output_dim tie_weights
STFTSpectrogram mode frame_length frame_step fft_length window periodic scaling padding expand_dims data_format
SeparableConv1D filters kernel_size strides padding data_format dilation_rate depth_multiplier activation use_bias
SeparableConv2D filters kernel_size strides padding data_format dilation_rate depth_multiplier activation use_bias
SimpleRNN units activation use_bias
SimpleRNNCell units activation use_bias
Softmax axis
Solarization addition_factor threshold_factor value_range seed
SpatialDropout1D rate seed name dtype
SpatialDropout2D rate data_format seed name dtype
SpatialDropout3D rate data_format seed name dtype
SpectralNormalization layer power_iterations
StackedRNNCells cells
StringLookup max_tokens num_oov_indices mask_token oov_token vocabulary idf_weights
Subtract
TFSMLayer filepath call_endpoint call_training_endpoint trainable name dtype
TextVectorization max_tokens standardize split ngrams output_mode output_sequence_length
TimeDistributed layer
TorchModuleWrapper module name output_shape
UnitNormalization axis
UpSampling1D size
UpSampling2D size data_format interpolation
UpSampling3D size data_format
Wrapper layer
ZeroPadding1D padding data_format
ZeroPadding2D padding data_format
ZeroPadding3D padding data_format
"""

_FUNCTIONS: Final = """\
keras.Input shape batch_size dtype
keras.Sequential layers name
keras.Model inputs outputs name
keras.mixed_precision.set_global_policy policy
keras.mixed_precision.experimental.set_policy policy
keras.mixed_precision.Policy name
keras.mixed_precision.experimental.Policy name loss_scale
keras.mixed_precision.LossScaleOptimizer inner_optimizer dynamic initial_scale
keras.mixed_precision.experimental.LossScaleOptimizer optimizer loss_scale
keras.optimizers.LossScaleOptimizer inner_optimizer initial_scale dynamic_growth_steps name
keras.config.set_dtype_policy policy
keras.config.set_floatx value
keras.backend.set_floatx value
keras.backend.set_epsilon value
keras.config.set_epsilon value
keras.DTypePolicy name
keras.dtype_policies.DTypePolicy name
keras.ops.cast x dtype
keras.activations.softmax x axis
keras.ops.softmax x axis
tensorflow.cast x dtype name
tensorflow.constant value dtype shape name
tensorflow.convert_to_tensor value dtype
tensorflow.zeros shape dtype name
tensorflow.ones shape dtype name
tensorflow.reshape tensor shape name
tensorflow.matmul a b transpose_a transpose_b
tensorflow.reduce_mean input_tensor axis keepdims name
tensorflow.reduce_sum input_tensor axis keepdims name
tensorflow.nn.softmax logits axis name
tensorflow.config.experimental.enable_tensor_float_32_execution enabled
tensorflow.function func input_signature autograph jit_compile
"""

_KERAS: Final = (
    "tensorflow.keras",
    "tensorflow.python.keras",
    "tf_keras",
    "keras.api",
    "keras.src",
    "keras._tf_keras.keras",
)
_MOVED: Final = {
    "keras.models.Sequential": "keras.Sequential",
    "keras.engine.sequential.Sequential": "keras.Sequential",
    "keras.models.Model": "keras.Model",
    "keras.engine.training.Model": "keras.Model",
    "keras.layers.Input": "keras.Input",
    "keras.Layer": "keras.layers.Layer",
    "keras.engine.base_layer.Layer": "keras.layers.Layer",
}
_INNER: Final = re.compile(r"keras\.layers\.(?:[a-z_]+\.)+([A-Z]\w*)$")


@cache
def canonical(dotted: str) -> str:
    """Return the canonical name of an imported one: ``tensorflow.keras.layers.Dense`` -> ``keras.layers.Dense``.

    Names below ``keras.layers`` lose inner modules (``keras.layers.core.Dense``), and aliases become the class that
    they stand for (``MaxPool2D``). Everything else stays as it was imported.
    """
    name = re.sub(r"^tensorflow\.compat\.v[12]\.", "tensorflow.", dotted)
    for prefix in _KERAS:
        if name == prefix or name.startswith(prefix + "."):
            name = "keras" + name[len(prefix) :]
            break
    name = _INNER.sub(r"keras.layers.\1", name)
    name = _MOVED.get(name, name)
    head, dot, last = name.rpartition(".")
    return f"{head}{dot}{ALIASES.get(last, last)}" if head == "keras.layers" else name


def layer_class(name: str | None) -> str | None:
    """Return the class of a canonical name where it is a layer of Keras' own (``Dense``); None otherwise."""
    if name == "keras.Input":
        return None
    head, _, last = (name or "").rpartition(".")
    return last if head == "keras.layers" and last in _layers() else None


def positional(name: str) -> tuple[str, ...]:
    """Return what the positional arguments of a canonical name are called; empty where that is not known."""
    found = layer_class(name)
    return _layers()[found] if found else _functions().get(name, ())


def public(module: str, name: str) -> bool:
    """Return whether ``from module import *`` binds a name of Keras that is known here."""
    dotted = canonical(f"{module}.{name}")
    return layer_class(dotted) is not None or dotted in ("keras.Input", "keras.Sequential", "keras.Model")


@cache
def _layers() -> dict[str, tuple[str, ...]]:
    return {words[0]: tuple(words[1:]) for words in map(str.split, _LAYERS.splitlines())}


@cache
def _functions() -> dict[str, tuple[str, ...]]:
    return {words[0]: tuple(words[1:]) for words in map(str.split, _FUNCTIONS.splitlines())}
