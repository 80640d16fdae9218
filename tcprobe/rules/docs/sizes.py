"""The documentation of the rules on sizes, TC1xx."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.docs.base import RuleDoc

TC101: Final = RuleDoc(
    code="TC101",
    summary="A size that is innermost in memory (units, filters, inputs, channels) is not a multiple of 8.",
    explanation=(
        "Tensor Cores are fed in units of 16 bytes: 8 elements of float16 or bfloat16, 4 of TF32, 16 of float8 or "
        "int8. A layer whose units, filters, inputs or channels do not fill whole units still runs on Tensor Cores "
        "since cuBLAS 11 and cuDNN 7.6.3, but with slower kernels. Measured on large products on an A100, relative "
        "to an aligned one: in 16 bits 63 % for an even size and 40 % for an odd one, 60 and 34 % in a Dense layer's "
        "input gradient, where both operands are contiguous along the contraction; in TF32 61 % for a size that is "
        "not a multiple of 4; on an H100 43 % and 22 % in 16 bits, from few products. float32 without TF32 does not "
        "care. With cuBLAS 10 Tensor Cores are not used at all. XLA pads float16 and bfloat16 products and "
        "float16 convolutions by itself; what is left is the cost of the copies. No public measurement of "
        "unaligned convolutions is known: their figures lie between no loss and that of a product.\n\nThe batch, "
        "the size of an image and, outside attention, the length of a sequence are not contiguous in any pass and "
        "do not matter. A size that a layer takes from another one is told once, where it is set; what must change "
        "with it is named. Where the next multiple of 8 lies just past a tile, the tile's size is "
        "suggested at once (2048 for 2049, not 2056 first). A size that costs nothing is a note, with the "
        "reason. A convolution of 1 to 4 "
        "filters is a case of its own: in 16 bits cuDNN may run its weight gradient on CUDA cores, which took 26 % "
        "of a GAN's step on an A100; compute 8 filters there and keep the first. Channels of images and small "
        "heads are TC104, channels of a group TC103, vocabularies TC105, heads of attention TC106."
    ),
    severity=(
        "From the likely saving: error from 5 % of the step, warning from 1 %, else note; a note too where the whole "
        "step takes the GPU less than a millisecond, since the host then takes longer. One degree less where the "
        "layer grows by more than 5 % and may lose, such products never having been timed (convolutions, recurrent "
        "layers). Of unknown cost: warning from a size of 1,024 up that a layer sets, but for convolutions and "
        "recurrent layers; "
        "else note. Of 1 to 4 filters: note, but for one filter of an ordinary convolution in 16 bits."
    ),
    bad="layers.Dense(7 * 7 * 63)\nlayers.Reshape((7, 7, 63))\nlayers.Conv2D(31, 5)",
    good="layers.Dense(7 * 7 * 64)\nlayers.Reshape((7, 7, 64))\nlayers.Conv2D(32, 5)",
    sources=(
        "NVIDIA, Matrix Multiplication Background User's Guide, table 1",
        "cuBLAS 12 documentation, Tensor Core Usage",
        "TensorFlow, Mixed precision guide: Ensuring GPU Tensor Cores are used",
        "autoheuristic padmm measurements of cuBLAS through PyTorch, 2024 (A100, H100): the percentages",
        "openxla/xla, cublas_padding_requirements.h and cudnn_pad_for_convolutions.cc: what XLA pads",
        "argonne-lcf/CompPerfWorkshop-2021, a GAN profiled on an A100: the weight gradient on CUDA cores",
    ),
)
TC102: Final = RuleDoc(
    code="TC102",
    summary="The batch is not a multiple of 8, which is a matter of tiles, not of Tensor Cores.",
    explanation=(
        "TensorFlow's guide lists the batch among the sizes that should be multiples of 8. Measured, it does not "
        "matter: on an A100 in float16 products with only the batch odd reach 216-225 TFLOP/s, fully aligned ones "
        "211-223, in forward, dgrad and wgrad alike; 7 against 8 and 15 against 16 rows differ by 0.2 % on A100, "
        "H100, B200 and L40S. The batch is a row count in every pass and never innermost in memory. cuBLAS 10 does "
        "ask for it, and a batch just past a multiple of a tile may cost a few percent: TC109 says so where it "
        "does."
    ),
    severity="Always a note.",
    level="note",
    bad="model.fit(x, y, batch_size=4090)",
    good="model.fit(x, y, batch_size=4096)",
    sources=(
        "autoheuristic padmm measurements of cuBLAS through PyTorch, 2024 (A100), one dimension unaligned at a time",
        "aiconfigurator measurements (A100, H100, B200, L40S): 7 against 8 and 15 against 16 rows",
        "NVIDIA, Matrix Multiplication Background User's Guide, table 1: cuBLAS before 11.0",
    ),
)
TC103: Final = RuleDoc(
    code="TC103",
    summary="One group of a grouped convolution has channels or filters that are not a multiple of 8.",
    explanation=(
        "A grouped convolution multiplies each group by itself: what counts for Tensor Cores is the channels and "
        "filters of one group, not of all. cuDNN 8.2 asks for 4, 8, 16 or 32 channels a group; XLA never pads a "
        "grouped convolution. In float16 grouped convolutions were reported 15 times slower than in float32 (4 "
        "groups, TITAN RTX) and 35 times slower in channels-last order (V100); no public measurement covers all "
        "sizes. Fewer groups of 8 or more channels, or a DepthwiseConv2D where each group has one channel, avoid "
        "it: both are another model, so nothing is changed for you."
    ),
    severity=(
        "A note where a group has one channel (a depthwise convolution). Else from what it loses against aligned "
        "groups: error where that is likely 5 % of the step or more, warning from 1 %, else note, also where its cost "
        "is unknown. The worst case is a judgement and decides nothing."
    ),
    bad="layers.Conv2D(128, 3, groups=32)  # 4 channels a group",
    good="layers.Conv2D(128, 3, groups=16)  # 8 channels a group",
    sources=(
        "cuDNN 8.2 and 8.3 release notes and best practices: grouped convolutions",
        "openxla/xla, cudnn_pad_for_convolutions.cc: grouped convolutions are left alone",
        "NVIDIA/apex#712, pytorch/pytorch#34977 and #54324: reported slowdowns",
    ),
)
TC104: Final = RuleDoc(
    code="TC104",
    summary="A size that is not aligned and best left so: image channels, a tiny head, or one that is set elsewhere.",
    explanation=(
        "The channels of an image and the classes of a small head break the rule of 8, and padding them gains "
        "nothing. Measured (DeepBench, V100 and T4, float16): a first convolution over 1 channel padded to 8 ran 5 "
        "to 8 times slower than float32 without padding, over 3 channels no faster. XLA pads 3 channels to 4 by "
        "itself where that pays. A head of 10 classes, or a table of 13 columns, is read once and is bound by "
        "memory and by its launch.\n\nOther sizes cannot be changed at all, for something else sets them: the labels, "
        "images or actions that the model is trained to put out, by its end or by the size's name (num_classes; "
        "vocabularies are TC105); the input that the next "
        "model declares (a decoder before a discriminator), unless one name stands for both sizes; a Reshape behind "
        "the layer; data that are added to its output, or that a loss compares with it number by number (mse; with "
        "labels, entries may stand idle); weights loaded from a file before training, or a model that was saved; "
        "a ready-made model of a package; in a product without weights, as raw attention has it, how many "
        "rows its operands have. The rule is there so that no size goes unmentioned, and so that nobody pads "
        "these."
    ),
    severity="Always a note.",
    level="note",
    bad="layers.Conv2D(64, 7, input_shape=(224, 224, 3))\nlayers.Dense(10)",
    good="# the same: leave them alone\nlayers.Conv2D(64, 7, input_shape=(224, 224, 3))\nlayers.Dense(10)",
    sources=(
        "DeepBench, V100 and T4, cuDNN 7.6.2: forward and weight gradient of first convolutions",
        "openxla/xla, cudnn_pad_for_convolutions.cc: 3 channels to 4",
    ),
)
TC105: Final = RuleDoc(
    code="TC105",
    summary="The projection to a vocabulary, or to 1,000 classes or more, is not a multiple of 8.",
    explanation=(
        "The projection to the vocabulary is often the largest product of a language model, and vocabularies are "
        "odd numbers: 50257, 30522. Round them up and leave the last entries unused: no token has their number, "
        "and the loss teaches the model never to choose them. Up to 1 % more entries, a multiple of 64 is "
        "suggested (50257 to 50304), as trained models use; beyond 8 no further gain was measured on large "
        "products. Padding only the stride in memory mends it on an A100 but not on an H100, where the size itself "
        "counts. An embedding alone is a look-up and has no rule; one that is tied to the projection must grow "
        "with it."
    ),
    severity=(
        "From the likely saving: error from 5 % of the step, warning from 1 %, else note. Of unknown cost: warning "
        "from a size of 1,024 up that a layer sets, else note. Without an embedding in the model these are classes, "
        "whose number the labels set: note."
    ),
    bad="layers.Dense(50257)",
    good="layers.Dense(50304)  # 50257 tokens, 47 unused",
    sources=(
        "EleutherAI, The Case for Co-Designing Model Architectures with Hardware, 2024: vocabulary, multiple of 64",
        "autoheuristic padmm measurements, 2024: 50257 with a padded stride at full rate on an A100; 50265, 30522 and "
        "128100 at 22-45 % of an aligned one on an H100",
    ),
)
TC106: Final = RuleDoc(
    code="TC106",
    summary="The size of one attention head (key_dim, value_dim) is not a multiple of 8.",
    explanation=(
        "Queries and keys are multiplied head by head, over key_dim; the scores and the values likewise, into "
        "value_dim. There the size of one head is innermost in memory, not heads x key_dim, so 12 heads of 25 are "
        "slow though the projections to 300 were mended by padding. Choose the number of heads so that a head is a "
        "multiple of 8, best 64 or 128. Fused attention kernels pad a head by themselves; Keras' TensorFlow "
        "backend multiplies as said. The length of the sequence is the data's and no finding."
    ),
    severity=(
        "From the likely saving: error from 5 % of the step, warning from 1 %, else note. Of unknown cost: warning "
        "from a size of 1,024 up that a layer sets, else note."
    ),
    bad="layers.MultiHeadAttention(num_heads=10, key_dim=25)",
    good="layers.MultiHeadAttention(num_heads=8, key_dim=32)",
    sources=(
        "EleutherAI, The Case for Co-Designing Model Architectures with Hardware, 2024: size of a head",
        "cuBLAS 12 documentation, Tensor Core Usage",
        "autoheuristic padmm measurements of cuBLAS through PyTorch, 2024 (A100, H100)",
    ),
)
TC107: Final = RuleDoc(
    code="TC107",
    summary="An LSTM or GRU has a setting that cuDNN does not know, so that it runs step by step.",
    explanation=(
        "Keras hands an LSTM or GRU to cuDNN, which runs the whole sequence in a few kernels, only where activation is "
        "tanh, recurrent_activation sigmoid, recurrent_dropout 0, unroll False and use_bias True, for a GRU also "
        "reset_after True; masks must be padded at the right. Any other setting makes it a loop of small products, a "
        "handful of kernels for each time step. That is often a larger loss than any size. dropout= works with cuDNN, "
        "recurrent_dropout= does not. How much is lost depends on the sequence and is not predicted."
    ),
    severity=(
        "A warning; a note where the activation is softmax, which is what the layer is to put out, and where the "
        "sequences are known to have 4 time steps or fewer."
    ),
    bad='layers.LSTM(256, activation="relu", recurrent_dropout=0.2)',
    good="layers.LSTM(256, dropout=0.2)",
    sources=("Keras 3, documentation of LSTM and GRU, and their backend for TensorFlow: conditions of the cuDNN path",),
)
TC108: Final = RuleDoc(
    code="TC108",
    summary="Most of the step goes into products too small to give every multiprocessor a tile.",
    explanation=(
        "A product is cut into tiles, one for each of the GPU's multiprocessors at a time (108 on an A100, 132 on "
        "an H100). One with fewer tiles than multiprocessors leaves some of them idle, and takes hardly longer "
        "when it grows. Where such products take most of the step, a larger batch, or several steps at once, costs "
        "little time; alignment matters little there. One note per model, only where the batch is known, half of it "
        "or more is predicted, and at least half of the predicted step is of this kind."
    ),
    severity="Always a note.",
    level="note",
    bad="model.fit(x, y, batch_size=16)",
    good="model.fit(x, y, batch_size=512)",
    sources=(
        "NVIDIA, Matrix Multiplication Background User's Guide: wave quantization",
        "NVIDIA, Linear/Fully-Connected Layers User's Guide: batch and neuron counts",
    ),
)
TC109: Final = RuleDoc(
    code="TC109",
    summary="A size lies just past a multiple of a tile, and a slightly smaller one runs notably faster.",
    explanation=(
        "Libraries cut a product into tiles of 64 to 256 rows and columns, and the GPU's multiprocessors take them "
        "wave by wave. One row more than a whole number of tiles makes a tile, or a wave, that is nearly empty. "
        "Measured as the time of one row more over that of a power of two: at 128 rows 1.29 on an A100, at 256 "
        "rows 1.35, at 4096 1.04; on an H100 1.05 at 256. The rule asks the cost model whether a size up to 3 % "
        "smaller saves 1 % of the step or more beyond what it saves by being smaller. It looks at the batch, and "
        "at sizes that keep the rule of 8; the others are TC101's."
    ),
    severity="From the likely saving beyond the share of the size: error from 5 % of the step, warning from 1 %.",
    bad="model.fit(x, y, batch_size=257)",
    good="model.fit(x, y, batch_size=256)",
    sources=(
        "NVIDIA, Matrix Multiplication Background User's Guide: tile and wave quantization",
        "aiconfigurator measurements (A100, H100, B200, L40S): one row past a power of two",
    ),
)
DOCS: Final = (TC101, TC102, TC103, TC104, TC105, TC106, TC107, TC108, TC109)
