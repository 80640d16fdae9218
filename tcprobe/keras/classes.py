"""The catalogue of Keras: one row for each class, with all that tcprobe knows of it.

Source: Keras 3.15.1 and Keras 2.15.0; tests hold every name against the signatures of both. Classes that Keras 3 lacks
are kept: old files use them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from tcprobe.keras.row import Features, KerasClass, LayerKind, ProductRule, ShapeRule


def _row(
    name: str,
    arguments: str = "",
    *,
    kind: LayerKind,
    keras_2: str | None = None,
    aliases: str = "",
    module: str = "layers",
    paths: str = "",
    rank: int | None = None,
    output: str | None = None,
    inner: str = "",
    counts: str = "",
    structure: str = "",
    settings: str = "",
    editable: str = "",
    features: Features = "unknown",
    shape: ShapeRule = "unknown",
    products: ProductRule = "none",
    weights: bool = False,
    gates: int = 0,
    cudnn: tuple[tuple[str, str | float | bool], ...] = (),
) -> KerasClass:
    """Return a row; what is a list there is written as words here."""
    return KerasClass(
        name, kind, tuple(arguments.split()), None if keras_2 is None else tuple(keras_2.split()),
        tuple(aliases.split()), module, tuple(paths.split()), rank, output, tuple(inner.split()),
        tuple(counts.split()), tuple(structure.split()), tuple(settings.split()), tuple(editable.split()),
        features, shape, products, weights, gates, cudnn,
    )  # fmt: skip


# What the classes of one family have in common; a row adds what is its own.
_WINDOW: Final = "kernel_size strides padding data_format dilation_rate"
_CONV: Final = "filters kernel_size strides padding data_format dilation_rate groups activation use_bias"
_CONV_TRANSPOSE: Final = (
    "filters kernel_size strides padding output_padding data_format dilation_rate activation use_bias"
)
_CONV_3D_TRANSPOSE: Final = (
    "filters kernel_size strides padding data_format output_padding dilation_rate activation use_bias"
)
_CONV_LSTM: Final = (
    "filters kernel_size strides padding data_format dilation_rate activation recurrent_activation use_bias"
)
_DEPTHWISE_CONV: Final = "kernel_size strides padding depth_multiplier data_format dilation_rate activation use_bias"
_SEPARABLE_CONV: Final = (
    "filters kernel_size strides padding data_format dilation_rate depth_multiplier activation use_bias"
)
_LOCAL_CONV: Final = "filters kernel_size strides padding data_format activation use_bias"
_POOL: Final = "pool_size strides padding data_format name"
_RNN: Final = "units activation recurrent_activation use_bias"

_convolution = partial(
    _row, kind="convolution", output="filters", counts="groups", settings=f"{_WINDOW} activation", editable="filters",
    features="own", shape="convolved", products="convolution", weights=True,
)  # fmt: skip
_transposed = partial(
    _row, kind="transposed convolution", output="filters", settings=f"{_WINDOW} output_padding activation",
    editable="filters", features="own", shape="transposed", products="transposed convolution", weights=True,
)  # fmt: skip
_depthwise = partial(
    _row, kind="depthwise convolution", counts="depth_multiplier", settings=f"{_WINDOW} activation",
    features="scaled", shape="convolved", weights=True,
)  # fmt: skip
_separable = partial(
    _row, kind="separable convolution", output="filters", counts="depth_multiplier", settings=f"{_WINDOW} activation",
    editable="filters", features="own", shape="convolved", products="separable convolution", weights=True,
)  # fmt: skip
_local = partial(
    _row, kind="local convolution", output="filters", settings="kernel_size strides padding data_format activation",
    features="own", shape="convolved", weights=True,
)  # fmt: skip
_conv_lstm = partial(
    _row, kind="recurrent convolution", output="filters", settings=f"{_WINDOW} activation return_sequences",
    features="own", shape="recurrent convolution", products="recurrent convolution", weights=True,
)  # fmt: skip
_recurrent = partial(
    _row, kind="recurrent", output="units", editable="units", features="own", shape="recurrent", products="recurrent",
    weights=True,
)  # fmt: skip
_cell = partial(_row, kind="cell", output="units", features="own", weights=True)
_wrapper = partial(_row, kind="wrapper", structure="layer", features="own", weights=True)
_normalization = partial(_row, kind="normalization", features="kept", shape="same", weights=True)
_activation = partial(_row, kind="activation", features="elementwise", shape="same")
_dropout = partial(_row, kind="dropout", features="elementwise", shape="same")
_identity = partial(_row, kind="identity", features="elementwise", shape="same")
_merging = partial(_row, kind="merging", features="merged", shape="broadcast")
_pooling = partial(
    _row, kind="pooling", settings="pool_size strides padding data_format", features="kept", shape="pooled"
)
_global_pooling = partial(
    _row, kind="pooling", settings="data_format keepdims", features="kept", shape="pooled globally"
)
_adaptive_pooling = partial(
    _row, kind="pooling", settings="output_size data_format", features="kept", shape="pooled to size"
)
_image = partial(_row, kind="image", features="kept", shape="same")
_other_image = partial(_row, kind="image")
_encoding = partial(_row, kind="encoding")
_function = partial(_row, kind="function")

_CUDNN: Final = (
    ("activation", "tanh"),
    ("recurrent_activation", "sigmoid"),
    ("recurrent_dropout", 0),
    ("unroll", False),
    ("use_bias", True),
)
_LOOP: Final = (
    "activation recurrent_activation recurrent_dropout return_sequences unroll use_bias use_cudnn implementation"
)

CLASSES: Final[tuple[KerasClass, ...]] = (
    # Multiply by a matrix of weights
    _row("Dense", "units activation use_bias", kind="dense", output="units", settings="activation", editable="units",
         features="own", shape="dense", products="dense", weights=True),
    _row("EinsumDense", "equation output_shape activation bias_axes", kind="einsum", structure="equation output_shape",
         settings="activation", features="own", shape="einsum", products="einsum", weights=True),
    _row("RandomFourierFeatures", "output_dim", kind="projection", output="output_dim", features="own",
         paths="keras.layers.experimental.RandomFourierFeatures"),
    _convolution("Conv1D", _CONV, aliases="Convolution1D", rank=1),
    _convolution("Conv2D", _CONV, aliases="Convolution2D", rank=2),
    _convolution("Conv3D", _CONV, aliases="Convolution3D", rank=3),
    _transposed("Conv1DTranspose", _CONV_TRANSPOSE, aliases="Convolution1DTranspose", rank=1),
    _transposed("Conv2DTranspose", _CONV_TRANSPOSE, aliases="Convolution2DTranspose", rank=2),
    _transposed("Conv3DTranspose", _CONV_3D_TRANSPOSE, keras_2=_CONV_TRANSPOSE, aliases="Convolution3DTranspose",
                rank=3),
    _depthwise("DepthwiseConv1D", _DEPTHWISE_CONV, rank=1),
    _depthwise("DepthwiseConv2D", _DEPTHWISE_CONV, rank=2),
    _separable("SeparableConv1D", _SEPARABLE_CONV, aliases="SeparableConvolution1D", rank=1),
    _separable("SeparableConv2D", _SEPARABLE_CONV, aliases="SeparableConvolution2D", rank=2),
    _local("LocallyConnected1D", _LOCAL_CONV, rank=1),
    _local("LocallyConnected2D", _LOCAL_CONV, rank=2),

    # Look tokens up
    _row("Embedding", "input_dim output_dim", kind="embedding", output="output_dim", structure="input_dim",
         editable="output_dim", features="own", shape="embedding", weights=True),
    _row("ReversibleEmbedding", "input_dim output_dim tie_weights", kind="embedding",
         structure="input_dim output_dim", features="own", shape="reversible", products="reversible", weights=True),

    # Attend
    _row("MultiHeadAttention", "num_heads key_dim value_dim dropout use_bias output_shape attention_axes"
         " sliding_window flash_attention", kind="attention",
         keras_2="num_heads key_dim value_dim dropout use_bias output_shape attention_axes",
         inner="key_dim value_dim", counts="num_heads",
         structure="output_shape", settings="dropout attention_axes use_gate", editable="key_dim value_dim",
         features="own", shape="heads", products="multi head", weights=True),
    _row("GroupedQueryAttention", "head_dim num_query_heads num_key_value_heads dropout use_bias sliding_window"
         " flash_attention", kind="attention", aliases="GroupQueryAttention", inner="head_dim",
         counts="num_query_heads num_key_value_heads", settings="dropout use_gate", editable="head_dim",
         features="own", shape="query", products="grouped query", weights=True),
    _row("Attention", "use_scale score_mode dropout seed", kind="attention", settings="score_mode", shape="attended",
         products="attention"),
    _row("AdditiveAttention", "use_scale dropout", kind="attention", shape="attended", products="attention",
         weights=True),

    # Go through a sequence step by step
    _recurrent("LSTM", _RNN, aliases="CuDNNLSTM", settings=_LOOP, gates=4, cudnn=_CUDNN),
    _recurrent("GRU", _RNN, aliases="CuDNNGRU", settings=f"{_LOOP} reset_after", gates=3,
               cudnn=(*_CUDNN, ("reset_after", True))),
    _recurrent("SimpleRNN", "units activation use_bias", gates=1,
               settings="activation recurrent_dropout return_sequences unroll"),
    _row("RNN", "cell return_sequences return_state go_backwards stateful unroll zero_output_for_mask",
         keras_2="cell return_sequences return_state go_backwards stateful unroll time_major", kind="recurrent",
         structure="cell", settings="return_sequences unroll", features="own", shape="recurrent", products="recurrent",
         weights=True),
    _conv_lstm("ConvLSTM1D", _CONV_LSTM, rank=1),
    _conv_lstm("ConvLSTM2D", _CONV_LSTM, rank=2),
    _conv_lstm("ConvLSTM3D", _CONV_LSTM, rank=3),
    _cell("LSTMCell", _RNN, settings="recurrent_dropout implementation", gates=4),
    _cell("GRUCell", _RNN, settings="recurrent_dropout implementation reset_after", gates=3),
    _cell("SimpleRNNCell", "units activation use_bias", settings="recurrent_dropout", gates=1),
    _row("StackedRNNCells", "cells", kind="cell", structure="cells", features="own"),

    # Wrap another layer
    _wrapper("Bidirectional", "layer merge_mode weights backward_layer", settings="merge_mode backward_layer",
             shape="bidirectional", products="bidirectional"),
    _wrapper("TimeDistributed", "layer", shape="time distributed", products="time distributed"),
    _wrapper("SpectralNormalization", "layer power_iterations", shape="wrapped", products="wrapped"),
    _row("Wrapper", "layer", kind="wrapper", structure="layer"),

    # Normalize
    _normalization("BatchNormalization", "axis momentum epsilon center scale"),
    _normalization("SyncBatchNormalization", "axis momentum epsilon center scale",
                   paths="keras.layers.experimental.SyncBatchNormalization"),
    _normalization("LayerNormalization", "axis epsilon center scale"),
    _normalization("GroupNormalization", "groups axis epsilon center scale", counts="groups"),
    _normalization("RMSNormalization", "axis epsilon"),
    _row("UnitNormalization", "axis", kind="normalization", features="kept", shape="same"),

    # Change each element, or none
    _activation("Activation", "activation", settings="activation"),
    _activation("ReLU", "max_value negative_slope threshold"),
    _activation("LeakyReLU", "negative_slope", keras_2="alpha"),
    _activation("PReLU", "alpha_initializer alpha_regularizer alpha_constraint shared_axes", weights=True),
    _activation("ThresholdedReLU", "theta"),
    _activation("ELU", "alpha"),
    _activation("Softmax", "axis"),
    _dropout("Dropout", "rate noise_shape seed"),
    _dropout("AlphaDropout", "rate noise_shape seed"),
    _dropout("GaussianDropout", "rate seed"),
    _dropout("GaussianNoise", "stddev seed"),
    _dropout("SpatialDropout1D", "rate seed name dtype", rank=1),
    _dropout("SpatialDropout2D", "rate data_format seed name dtype", rank=2),
    _dropout("SpatialDropout3D", "rate data_format seed name dtype", rank=3),
    _dropout("ActivityRegularization", "l1 l2"),
    _identity("Identity", ""),
    _identity("Masking", "mask_value"),

    # Merge several inputs
    _merging("Add"),
    _merging("Subtract"),
    _merging("Multiply"),
    _merging("Average"),
    _merging("Maximum"),
    _merging("Minimum"),
    _row("Concatenate", "axis", kind="merging", settings="axis", features="joined", shape="concatenated"),
    _row("Dot", "axes normalize", kind="merging", settings="axes", shape="dotted", products="dot"),

    # Change the shape
    _row("Flatten", "data_format", kind="reshaping", features="reshaped", shape="flattened"),
    _row("Reshape", "target_shape", kind="reshaping", structure="target_shape", features="reshaped",
         shape="reshaped"),
    _row("Permute", "dims", kind="reshaping", settings="dims", shape="permuted"),
    _row("RepeatVector", "n", kind="reshaping", settings="n", features="kept", shape="repeated"),

    # Pool, pad and resize
    _pooling("MaxPooling1D", _POOL, aliases="MaxPool1D", rank=1),
    _pooling("MaxPooling2D", _POOL, aliases="MaxPool2D", rank=2),
    _pooling("MaxPooling3D", _POOL, aliases="MaxPool3D", rank=3),
    _pooling("AveragePooling1D", _POOL, aliases="AvgPool1D", rank=1),
    _pooling("AveragePooling2D", _POOL, aliases="AvgPool2D", rank=2),
    _pooling("AveragePooling3D", _POOL, aliases="AvgPool3D", rank=3),
    _global_pooling("GlobalMaxPooling1D", "data_format keepdims", aliases="GlobalMaxPool1D", rank=1),
    _global_pooling("GlobalMaxPooling2D", "data_format keepdims", aliases="GlobalMaxPool2D", rank=2),
    _global_pooling("GlobalMaxPooling3D", "data_format keepdims", aliases="GlobalMaxPool3D", rank=3),
    _global_pooling("GlobalAveragePooling1D", "data_format keepdims", aliases="GlobalAvgPool1D", rank=1),
    _global_pooling("GlobalAveragePooling2D", "data_format keepdims", aliases="GlobalAvgPool2D", rank=2),
    _global_pooling("GlobalAveragePooling3D", "data_format keepdims", aliases="GlobalAvgPool3D", rank=3),
    _adaptive_pooling("AdaptiveMaxPooling1D", "output_size data_format", rank=1),
    _adaptive_pooling("AdaptiveMaxPooling2D", "output_size data_format", rank=2),
    _adaptive_pooling("AdaptiveMaxPooling3D", "output_size data_format", rank=3),
    _adaptive_pooling("AdaptiveAveragePooling1D", "output_size data_format", rank=1),
    _adaptive_pooling("AdaptiveAveragePooling2D", "output_size data_format", rank=2),
    _adaptive_pooling("AdaptiveAveragePooling3D", "output_size data_format", rank=3),
    _row("UpSampling1D", "size", kind="padding", rank=1, settings="size", features="kept", shape="upsampled"),
    _row("UpSampling2D", "size data_format interpolation", kind="padding", rank=2, settings="size data_format",
         features="kept", shape="upsampled"),
    _row("UpSampling3D", "size data_format", kind="padding", rank=3, settings="size data_format", features="kept",
         shape="upsampled"),
    _row("ZeroPadding1D", "padding data_format", kind="padding", rank=1, settings="padding data_format",
         features="kept", shape="padded"),
    _row("ZeroPadding2D", "padding data_format", kind="padding", rank=2, settings="padding data_format",
         features="kept", shape="padded"),
    _row("ZeroPadding3D", "padding data_format", kind="padding", rank=3, settings="padding data_format",
         features="kept", shape="padded"),
    _row("Cropping1D", "cropping", kind="padding", rank=1, settings="cropping", features="kept", shape="cropped"),
    _row("Cropping2D", "cropping data_format", kind="padding", rank=2, settings="cropping data_format",
         features="kept", shape="cropped"),
    _row("Cropping3D", "cropping data_format", kind="padding", rank=3, settings="cropping data_format",
         features="kept", shape="cropped"),

    # Prepare images
    _image("Rescaling", "scale offset"),
    _row("Resizing", "height width interpolation crop_to_aspect_ratio pad_to_aspect_ratio fill_mode fill_value"
         " antialias data_format", kind="image", settings="height width data_format", features="kept",
         shape="resized image"),
    _row("CenterCrop", "height width data_format", kind="image", settings="height width data_format", features="kept",
         shape="resized image"),
    _row("RandomCrop", "height width seed data_format name", kind="image", settings="height width data_format",
         features="kept", shape="resized image"),
    _image("AutoContrast", "value_range"),
    _image("Equalization", "value_range bins data_format"),
    _image("RandomBrightness", "factor value_range seed"),
    _image("RandomColorJitter", "value_range brightness_factor contrast_factor saturation_factor hue_factor seed"
           " data_format"),
    _image("RandomContrast", "factor value_range seed", keras_2="factor seed"),
    _image("RandomErasing", "factor scale fill_value value_range seed data_format"),
    _image("RandomFlip", "mode seed data_format"),
    _image("RandomGaussianBlur", "factor kernel_size sigma value_range data_format seed"),
    _image("RandomGrayscale", "factor data_format seed"),
    _image("RandomHue", "factor value_range data_format seed"),
    _image("RandomInvert", "factor value_range seed data_format"),
    _image("RandomPerspective", "factor scale interpolation fill_value seed data_format"),
    _image("RandomPosterization", "factor value_range data_format seed"),
    _image("RandomRotation", "factor fill_mode interpolation seed fill_value data_format"),
    _image("RandomSaturation", "factor value_range data_format seed"),
    _image("RandomSharpness", "factor value_range data_format seed"),
    _image("RandomShear", "x_factor y_factor interpolation fill_mode fill_value data_format seed"),
    _image("RandomTranslation", "height_factor width_factor fill_mode interpolation seed fill_value data_format"),
    _image("RandomZoom", "height_factor width_factor fill_mode interpolation seed fill_value data_format"),
    _image("Solarization", "addition_factor threshold_factor value_range seed"),
    _other_image("AugMix", "value_range num_chains chain_depth factor alpha all_ops interpolation seed data_format"),
    _other_image("ContrastLimitedAdaptiveHistogramEqualization", "value_range clip_limit tile_grid_size data_format"),
    _other_image("CutMix", "factor seed data_format"),
    _other_image("MaxNumBoundingBoxes", "max_number fill_value"),
    _other_image("MixUp", "alpha data_format seed"),
    _other_image("RandAugment", "value_range num_ops factor interpolation seed data_format"),
    _other_image("RandomColorDegeneration", "factor value_range data_format seed"),
    _other_image("RandomElasticTransform",
                 "factor scale interpolation fill_mode fill_value value_range seed data_format"),
    _other_image("RandomHeight", "factor interpolation seed"),
    _other_image("RandomWidth", "factor interpolation seed"),

    # Prepare text, numbers and sound
    _row("Normalization", "axis mean variance invert", kind="statistics", features="kept", shape="same"),
    _encoding("CategoryEncoding", "num_tokens output_mode sparse"),
    _encoding("DenseFeatures", "feature_columns trainable name"),
    _encoding("Discretization", "bin_boundaries num_bins epsilon output_mode sparse dtype name"),
    _encoding("HashedCrossing", "num_bins output_mode sparse name dtype"),
    _encoding("Hashing", "num_bins mask_value salt output_mode sparse"),
    _encoding("IntegerLookup", "max_tokens num_oov_indices mask_token oov_token vocabulary vocabulary_dtype idf_weights"
              " invert output_mode sparse pad_to_max_tokens oov_method salt name"),
    _encoding("StringLookup", "max_tokens num_oov_indices mask_token oov_token vocabulary idf_weights invert"
              " output_mode pad_to_max_tokens sparse encoding name salt",
              keras_2="max_tokens num_oov_indices mask_token oov_token vocabulary idf_weights encoding invert"
              " output_mode sparse pad_to_max_tokens"),
    _encoding("TextVectorization", "max_tokens standardize split ngrams output_mode output_sequence_length"
              " pad_to_max_tokens vocabulary idf_weights sparse ragged encoding name"),
    _row("MelSpectrogram", "fft_length sequence_stride sequence_length window sampling_rate num_mel_bins min_freq"
         " max_freq power_to_db top_db mag_exp min_power ref_power", kind="sound"),
    _row("STFTSpectrogram", "mode frame_length frame_step fft_length window periodic scaling padding expand_dims"
         " data_format", kind="sound"),

    # Run what is not Keras'
    _function("Lambda", "function output_shape mask arguments"),
    _function("FlaxLayer", "module method variables"),
    _function("JaxLayer", "call_fn init_fn params state seed native_serialization_platforms"),
    _function("Pipeline", "layers name"),
    _function("TFSMLayer", "filepath call_endpoint call_training_endpoint trainable name dtype"),
    _function("TorchModuleWrapper", "module name output_shape"),

    # Begin a model, or are one
    _row("InputLayer", "shape batch_size dtype sparse ragged batch_shape input_tensor optional name",
         keras_2="input_shape batch_size dtype input_tensor sparse name ragged type_spec", kind="input", shape="same"),
    _row("Layer", kind="base", paths="keras.Layer keras.engine.base_layer.Layer"),
    _row("AbstractRNNCell", "trainable name dtype dynamic", kind="base"),
    _row("InputSpec", "dtype shape ndim max_ndim min_ndim axes allow_last_axis_squeeze name optional", kind="base"),
    _row("Model", "inputs outputs name", kind="model", module="",
         paths="keras.models.Model keras.engine.training.Model"),
    _row("Sequential", "layers trainable name", keras_2="layers name", kind="sequence", module="",
         paths="keras.models.Sequential keras.engine.sequential.Sequential"),

    # Set the precision
    _row("LossScaleOptimizer", "inner_optimizer initial_scale dynamic_growth_steps name",
         keras_2="inner_optimizer dynamic initial_scale dynamic_growth_steps", kind="optimizer",
         module="mixed_precision", paths="keras.optimizers.LossScaleOptimizer"),
    _row("DTypePolicy", "name", kind="policy", module="mixed_precision", aliases="Policy",
         paths="keras.DTypePolicy keras.dtype_policies.DTypePolicy"),
)  # fmt: skip
