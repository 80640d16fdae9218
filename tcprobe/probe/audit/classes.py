"""What the audit must know of Keras' classes: written from tcprobe/keras by tests/pages/probe_classes.py."""

# Their output features come from tables and loops, not one product.
MAKERS = ("Embedding", "LSTM", "GRU", "SimpleRNN")
# A GPU runs them in cuDNN.
CUDNN_LAYERS = ("LSTM", "GRU")
# Settings asked of layers whose own get_config does not tell (subclasses without one).
SETTINGS = (
    "units",
    "activation",
    "equation",
    "output_dim",
    "filters",
    "groups",
    "kernel_size",
    "strides",
    "padding",
    "data_format",
    "dilation_rate",
    "output_padding",
    "depth_multiplier",
    "input_dim",
    "key_dim",
    "value_dim",
    "num_heads",
    "dropout",
    "attention_axes",
    "use_gate",
    "head_dim",
    "num_query_heads",
    "num_key_value_heads",
    "score_mode",
    "recurrent_activation",
    "recurrent_dropout",
    "return_sequences",
    "unroll",
    "use_bias",
    "use_cudnn",
    "implementation",
    "reset_after",
    "merge_mode",
    "axes",
)
