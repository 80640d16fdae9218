"""What is not judged: layers, models and products of other frameworks, by the names that code imports."""

from __future__ import annotations

from functools import cache
from typing import Final

from msgspec import Struct

from tcprobe.keras.catalogue import known
from tcprobe.schema.model import NotJudgedKind


class Foreign(Struct, frozen=True):
    """Something that a call makes and that is not judged."""

    library: str  # as its users call it (``PyTorch``)
    kind: NotJudgedKind  # what it is
    name: str  # as code calls it (``Linear``)


# Only what multiplies or sets a size: a ReLU is no reason to speak up. Names that are gone are kept, as old files are.
_TABLE: Final[tuple[tuple[str, NotJudgedKind, str, str], ...]] = (
    ("PyTorch", "layer", "torch.nn torch.nn.modules", """
        Linear LazyLinear Bilinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d
        LazyConv2d LazyConv3d RNN LSTM GRU RNNCell LSTMCell GRUCell Embedding EmbeddingBag MultiheadAttention
        Transformer TransformerEncoder TransformerEncoderLayer TransformerDecoder TransformerDecoderLayer"""),
    ("PyTorch", "product", "torch torch.linalg", "matmul mm bmm addmm baddbmm einsum tensordot"),
    ("PyTorch", "product", "torch.nn.functional", """
        linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        scaled_dot_product_attention multi_head_attention_forward"""),
    ("PyTorch", "model", "torch.nn torch.nn.modules lightning pytorch_lightning", "Module LightningModule"),
    ("Transformer Engine", "layer", "transformer_engine.pytorch transformer_engine.jax.flax", """
        Linear LayerNormLinear LayerNormMLP MultiheadAttention DotProductAttention TransformerLayer DenseGeneral
        LayerNormDenseGeneral"""),
    ("Flax", "layer", "flax.linen flax.nn", """
        Dense DenseGeneral Conv ConvTranspose ConvLocal Embed Einsum RNN LSTMCell OptimizedLSTMCell GRUCell MGUCell
        SimpleCell ConvLSTMCell MultiHeadAttention MultiHeadDotProductAttention SelfAttention"""),
    ("Flax", "layer", "flax.nnx", """
        Linear LinearGeneral Conv ConvTranspose Embed Einsum LoRA LoRALinear LSTMCell OptimizedLSTMCell GRUCell
        SimpleCell MultiHeadAttention"""),
    ("Flax", "model", "flax.linen flax.nn flax.nnx", "Module"),
    ("Haiku", "layer", "haiku", """
        Linear Bias Conv1D Conv2D Conv3D ConvND Conv1DTranspose Conv2DTranspose Conv3DTranspose Conv1DLSTM Conv2DLSTM
        LSTM GRU VanillaRNN Embed MultiHeadAttention SeparableDepthwiseConv2D"""),
    ("Haiku", "model", "haiku haiku.nets", "Module MLP ResNet ResNet18 ResNet50 MobileNetV1 VectorQuantizer"),
    ("Sonnet", "layer", "sonnet sonnet.v2", """
        Linear Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose Embed LSTM GRU VanillaRNN
        UnrolledLSTM Conv1DLSTM Conv2DLSTM Conv3DLSTM SeparableConv2D InPlaneConv2D"""),
    ("Sonnet", "model", "sonnet sonnet.v2 sonnet.nets sonnet.v2.nets", """
        Module AbstractModule MLP ConvNet2D ResNet ResNet50 Cifar10ConvNet VectorQuantizer VectorQuantizerEMA"""),
    ("Equinox", "layer", "equinox.nn", """
        Linear Conv Conv1d Conv2d Conv3d ConvTranspose ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding
        GRUCell LSTMCell MLP MultiheadAttention"""),
    ("Equinox", "model", "equinox", "Module"),
    ("JAX", "product", "jax.numpy", "dot matmul einsum tensordot inner"),
    ("JAX", "product", "jax.lax", """
        dot dot_general batch_matmul conv conv_general_dilated conv_transpose conv_with_general_padding"""),
    ("JAX", "layer", "jax.example_libraries.stax jax.experimental.stax", "Dense Conv ConvTranspose GeneralConv"),
    ("TensorFlow 1", "layer", "tensorflow.layers", """
        dense conv1d conv2d conv3d conv2d_transpose conv3d_transpose separable_conv1d separable_conv2d
        Dense Conv1D Conv2D Conv3D Conv2DTranspose Conv3DTranspose SeparableConv1D SeparableConv2D"""),
    ("TensorFlow 1", "layer", "tensorflow.contrib.layers tensorflow.contrib.slim tf_slim tf_slim.layers", """
        fully_connected linear relu conv1d conv2d conv3d conv2d_in_plane conv2d_transpose conv3d_transpose convolution
        convolution1d convolution2d convolution2d_transpose convolution3d separable_conv2d separable_convolution2d
        embed_sequence repeat stack"""),
    ("TensorFlow 1", "layer", "tensorflow.nn.rnn_cell tensorflow.contrib.rnn tensorflow.contrib.cudnn_rnn", """
        BasicRNNCell RNNCell BasicLSTMCell LSTMCell GRUCell GRUBlockCell LSTMBlockCell LSTMBlockFusedCell
        LayerNormBasicLSTMCell ConvLSTMCell CudnnLSTM CudnnGRU CudnnCompatibleLSTMCell"""),
    ("TFLearn", "layer", "tflearn tflearn.layers tflearn.layers.core tflearn.layers.conv tflearn.layers.recurrent", """
        fully_connected single_unit highway conv_1d conv_2d conv_3d conv_2d_transpose embedding lstm gru simple_rnn
        bidirectional_rnn"""),
    ("TensorFlow", "product", "tensorflow tensorflow.linalg", """
        matmul einsum tensordot matvec batch_matmul sparse_tensor_dense_matmul sparse_matmul"""),
    ("TensorFlow", "product", "tensorflow.nn", """
        conv1d conv2d conv3d convolution conv_transpose conv1d_transpose conv2d_transpose conv3d_transpose atrous_conv2d
        separable_conv2d xw_plus_b relu_layer"""),
    ("TensorFlow", "model", "tensorflow.estimator", """
        DNNClassifier DNNRegressor DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedRegressor"""),
    ("Keras", "product", "keras.ops keras.backend", """
        matmul dot einsum tensordot inner batch_dot conv conv_transpose conv1d conv2d conv3d conv2d_transpose
        separable_conv dot_product_attention"""),
    ("TensorFlow Hub", "model", "tensorflow_hub", "KerasLayer Module"),
    ("MXNet", "layer", "mxnet.gluon.nn", """
        Dense Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose Embedding"""),
    ("MXNet", "layer", "mxnet.sym mxnet.symbol mxnet.nd mxnet.ndarray", """
        FullyConnected Convolution Deconvolution Embedding RNN"""),
    ("PaddlePaddle", "layer", "paddle.nn", """
        Linear Conv1D Conv2D Conv3D Conv1DTranspose Conv2DTranspose Conv3DTranspose Embedding SimpleRNN LSTM GRU
        MultiHeadAttention Transformer TransformerEncoderLayer TransformerDecoderLayer"""),
    ("PaddlePaddle", "model", "paddle.nn", "Layer"),
)  # fmt: skip

_NAMES: Final = {
    "tensorflow_addons": "TensorFlow Addons", "keras_nlp": "KerasNLP", "keras_hub": "KerasHub", "keras_cv": "KerasCV",
    "torch": "PyTorch", "transformers": "Transformers", "flax": "Flax", "haiku": "Haiku", "sonnet": "Sonnet",
    "tensorflow": "TensorFlow", "keras": "Keras", "paddle": "PaddlePaddle", "mxnet": "MXNet",
}  # fmt: skip
"""What packages are called, where that is not their import name."""
_LAYER_MODULES: Final = ("layers", "layer", "nn")
_NO_LAYERS: Final = frozenset((
    "Layer", "Input", "InputLayer", "InputSpec", "Module", "Sequential", "ModuleList", "ModuleDict", "Parameter",
    "Wrapper", "Buffer", "Lambda", "Flatten", "Dropout", "Identity",
))  # fmt: skip
_PLAIN: Final = ("Loss", "Norm", "ReLU", "Pool", "Pad", "Dropout", "Activation", "Normalization", "Pooling", "Padding")
"""In the names of classes without a product."""
ELSEWHERE: Final = frozenset((
    "PyTorch", "Transformer Engine", "Flax", "Haiku", "Equinox", "JAX", "MXNet", "PaddlePaddle"
))  # fmt: skip
"""Libraries that run without TensorFlow, so that its graph shows nothing of them."""
_WITHOUT_PRODUCTS: Final = ("torch", "flax", "haiku", "sonnet", "equinox", "jax", "paddle", "mxnet")
"""Packages of which the table names every layer that multiplies."""


def foreign(dotted: str) -> Foreign | None:
    """Return what a call of a canonical name makes, where that is not judged; None for any other name."""
    module, _, name = dotted.rpartition(".")
    row = _rows().get(module, {}).get(name) or _inner().get(module.partition(".")[0], {}).get(name)
    if row is not None:
        return Foreign(*row, name)
    if name in ("from_pretrained", "from_config", "from_preset") and module.count("."):
        return _ready_made(module)
    return foreign_layer(dotted) if any(part in _LAYER_MODULES for part in module.split(".")) else None


def foreign_layer(dotted: str) -> Foreign | None:
    """Return a layer of a class that is not known; None for a name that is no class, or known to multiply nothing."""
    module, _, name = dotted.rpartition(".")
    top = module.partition(".")[0]
    plain = name in _NO_LAYERS or any(word in name for word in _PLAIN)
    if not top or not name[:1].isupper() or name.isupper() or plain or top in _WITHOUT_PRODUCTS or known(dotted):
        return None
    return Foreign(_NAMES.get(top, top), "layer", name)


def foreign_base(dotted: str) -> Foreign | None:
    """Return the kind of model that a class is whose base has a canonical name; None where it is none of these."""
    found = foreign(dotted)
    return found if found is not None and found.kind == "model" else None


def _ready_made(dotted: str) -> Foreign | None:
    module, _, name = dotted.rpartition(".")
    top = module.partition(".")[0]
    models = top in ("transformers", "diffusers", "keras_nlp", "keras_hub", "keras_cv", "huggingface_hub")
    data = any(word in name for word in ("Tokenizer", "Config", "Processor", "Extractor", "Preprocessor", "Scheduler"))
    return Foreign(_NAMES.get(top, top), "model", name) if models and not data and name[:1].isupper() else None


@cache
def _inner() -> dict[str, dict[str, tuple[str, NotJudgedKind]]]:
    """Return the classes of layers by the packages that they are of, whichever inner module they are taken from."""
    found: dict[str, dict[str, tuple[str, NotJudgedKind]]] = {}
    for library, kind, modules, names in _TABLE:
        top = modules.partition(".")[0].partition(" ")[0]
        if kind == "layer" and top in _WITHOUT_PRODUCTS:
            found.setdefault(top, {}).update({n: (library, kind) for n in names.split() if n[0].isupper()})
    return found


@cache
def _rows() -> dict[str, dict[str, tuple[str, NotJudgedKind]]]:
    found: dict[str, dict[str, tuple[str, NotJudgedKind]]] = {}
    for library, kind, modules, names in _TABLE:
        for module in modules.split():
            found.setdefault(module, {}).update(dict.fromkeys(names.split(), (library, kind)))
    return found
