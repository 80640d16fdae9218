"""What a kernel does, as far as its name tells: rules beside those of `names`, on the same parts of the name.

Some rules of classes speak of one kind alone. Else the words of the function decide: of kernels that may multiply,
those of products; of others, what they do. For the general kernels of frameworks (elementwise_kernel, EigenMetaKernel)
the template arguments say what they are made for. docs/classification.md describes the kinds.

Tell by a kernel's name what part it has in an op that multiplies matrices, and what a compiler's fusion holds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from tcprobe.analysis.kernels.names import MOVING
from tcprobe.analysis.kernels.rule import MOVES_OR_MAPS, MULTIPLIES, NameParts, compiled, whole_words
from tcprobe.analysis.kernels.verdict import by_name, may_multiply
from tcprobe.schema.kinds import KernelKind

Rules: TypeAlias = tuple[tuple[KernelKind, str], ...]

_OF_RULE: Final[dict[str | None, KernelKind]] = {
    "graph-launch": "unknown",
    "gemm-helper": "helper",
    "collective": "communication",
    "two-gemms": "matmul",
    "nvjet": "matmul",
    "cudnn-sdpa": "attention",
    "flash-attention": "attention",
    "attention-float32-old": "attention",
    "attention-float32": "attention",
    "attention-fused": "attention",
    "quantised-gemm": "matmul",
    "cudnn-listed": "convolution",
    "triton-gemm": "matmul",
    "xla-dot": "matmul",
    "nvfuser": "fusion",
    "fft": "fourier",
    "rnn-without-hmma": "recurrent",
}
# words of kernels that may multiply
_PRODUCTS: Final[Rules] = (
    ("copy", r"transpose_read_?write\w*"),
    ("elementwise", r"(?:axpy|axpby|scal|rot|swap)[2cgmu]?"),
    ("reduction", r"nrm2|asum|iamax|iamin|reduce_1_?block"),
    ("recurrent", r"lstm\w*|gru\w*|rnn\w*"),
    (
        "attention",
        r"""
        [a-z]*attn | [a-z]*attention | [a-z]*mha | mla | sdpa | flash | qk\w* | decode | paged | xqa | retention | gla
        | gdn | nsa | kkt | delta | ss[dm] | chunk_(?:scan|state)
        """,
    ),
    (
        "matrix_vector",
        r"[a-z]*gemv\w* | mul_mat_vec\w* | (?:mat|matrix)_?vec\w* | dot_(?:kernel|prod)\w* | router_gemm",
    ),
    (
        "convolution",
        r"""
        conv\d*d? | conv(?:2d|3d)?_(?:fwd|bwd|[dw]grad)\w* | convol\w* | deconv\w* | fprop\w* | [dw]grad\w*
        | winograd\w* | [a-z0-9]+cudnn | first_layer\w* | depthwise\w* | pointwise_mult_and_sum_complex
        """,
    ),
    (
        "matmul",
        r"""
        \w{0,20}gemm\w* | (?:mat|matrix|mtx)_?mul\w* | [a-z]*matmul | b?mm | b?addmm | spmm | sddmm | einsum | linear
        | mlp | ffn | dense | moe | experts? | lora\w* | marlin | syrk | trmm | mul_mat\w* | dot | fc\d* | proj\w*
        """,
    ),
)
# words of kernels that multiply nothing
_OTHERS: Final[Rules] = (
    ("matmul", "cijk"),  # hipBLASLt's products, whose names hold bias and activation
    ("autotuning", r"redzone\w* | repeat_buffer | delay | spin | sleep | backoff"),
    ("elementwise", r"rotary\w* | elementwise_kernel_with_index"),
    ("embedding", r"embedding\w* | embs? | lookup"),
    (
        "optimizer",
        r"[a-z]*adam\w* | sgd | momentum | lamb | lars | rmsprop | adagrad | adadelta | ftrl | optimi[sz]er\w*",
    ),
    (
        "random",
        r"""
        random\w* | philox\w* | rand\w* | rng | curand\w* | uniform | normal | distribution | drop_?out\w*
        | bernoulli | multinomial | generate_seed_pseudo | gen_sequenced
        """,
    ),
    ("sort", r"[a-z]*sort\w* | radix | top_?k | bitonic | unique | kth | nms | searchsorted"),
    ("softmax", r"(?:log_?)?soft_?max\w* | cross_entropy\w* | nll | criterion | normalized_prob"),
    (
        "normalisation",
        r"""
        [a-z]{0,12}norm\w* | bn_(?:fw|bw)\w* | batchnorm\w* | moments | gamma_beta\w*
        | cu_compute_(?:grad_input|(?:part_)?grad_gamma_beta)
        """,
    ),
    ("pooling", r"[a-z]*pool\w* | resiz\w* | interp\w* | upsampl\w* | roi\w* | grid_sample\w*"),
    (
        "gather",
        r"""
        gather\w* | scatter\w* | index\w* | indices | get_rows | dynamic_(?:stitch|partition) | nonzero | one_?hot
        | permute_\d_d_(?:data|lengths) | segments? | select
        """,
    ),
    ("elementwise", r"mul | [a-z]*elu | silu | tanh | sigmoid | swiglu | act"),
    (
        "copy",
        r"""
        cat\w* | concat\w* | stack | split | copy\w* | cpy | memcpy | memset | fill | zeros? | ones | init\w*
        | transpos\w* | permut\w* | unpermute | reshape | reformat | [a-z]*pad\w* | pack\w* | repack\w* | unpack\w*
        | [a-z]*quant\w* | convert\w* | cast\w* | cvt | slic\w* | flip | roll | reverse\w* | expand
        | broadcast\w* | bcast | n[cdhw]+_to_\w+ | swap_dimension\w* | shuffle\w* | bitcast\w* | iota | arange
        | rowwise_to_float
        """,
    ),
    (
        "reduction",
        r"""
        [a-z]*reduc\w* | sum | mean | max | min | argmax | argmin | scan | cumsum | state_passing | histogram
        | bias_grad\w*
        """,
    ),
    ("elementwise", MOVES_OR_MAPS),
    ("elementwise", r"op_tensor | op_generic_tensor | add_tensor\w*"),
)
# the general kernels of PyTorch, Eigen, Thrust, CUB and apex, and what template arguments say they are made for
_GENERAL: Final = compiled(r"^(?:vectorized_|unrolled_)?elementwise_kernel | eigen_meta | multi_tensor | kernel_agent")
_MADE_FOR: Final[tuple[tuple[KernelKind, re.Pattern[str]], ...]] = (
    ("optimizer", re.compile(r"Adam|SGD|Sgd|L(?:amb|AMB)|Adagrad|RMSprop|NovoGrad")),
    ("reduction", re.compile(r"Reduc(?:tion|er)Op|TensorTupleReducer|L[2p]Norm|MaxNorm|TensorScan")),
    ("random", re.compile(r"(?i:philox|bernoulli|dropout|curand)|RandomGenerator")),
    ("gather", re.compile(r"index_kernel|index_put|_gather_|_scatter_|masked_select|TensorGather")),
    ("copy", re.compile(r"_copy_kernel|[Ff]ill_?[Ff]unctor|CopyFunctor")),
    ("elementwise", re.compile(r"TensorCwise|Functor|[Ff]unctor|parallel_for|lambda")),
    ("copy", re.compile(r"Tensor(?:Shuffling|Slicing|Strided|Padding|Concatenation|Broadcasting|Reverse|Conversion)")),
    ("elementwise", re.compile(r"TensorAssign")),
)


def _compiled(rules: Rules) -> tuple[tuple[KernelKind, re.Pattern[str]], ...]:
    return tuple((kind, compiled(whole_words(words))) for kind, words in rules)


_PRODUCT_WORDS: Final = _compiled(_PRODUCTS)
_OTHER_WORDS: Final = _compiled(_OTHERS)
_CONVOLVES: Final = compiled(whole_words(r"conv\d*d? | convolution"))
# cuDNN's own names of a convolution as a product: the function may be called `gemm::kernel`, its traits are not
_IMPLICIT: Final = compiled(r"implicit_gemm::\w*?(?:indexed|[dw]grad|fprop)")
_FUSION: Final = compiled(
    r"^(?:triton_(?:poi|red|per|for|spl|softmax)_ | _*my[le]\d*_ | (?:[a-z]++_)*fusion | generated_native_pointwise)"
)


@lru_cache(maxsize=65536)
def kind_of(name: str) -> KernelKind:
    """Return what the kernel of this name does, as far as the name tells."""
    verdict, texts = by_name(name), NameParts.of(name).texts
    if verdict.rule in _OF_RULE:
        kind = _OF_RULE[verdict.rule]
        if kind == "fourier" and transforms(name):
            return "helper"
        return "convolution" if kind == "matmul" and _CONVOLVES.search(texts["words"]) else kind
    words, part = texts["words"], part_of(name)
    if part == "layout":
        return "copy"
    if verdict.rule not in MOVING:
        product = "helper" if part == "helps" else _first(_PRODUCT_WORDS, words)
        if product in (None, "matmul") and _IMPLICIT.search(texts["whole"]):
            return "convolution"
        if product or verdict.uses_tc != "no":
            return product or ("matmul" if verdict.uses_tc == "yes" else "unknown")
        if verdict.rule == "blas-vector":
            return "matrix_vector"
    if _FUSION.search(words):
        return "softmax" if words.startswith("triton_softmax") else "fusion"
    return (_made_for(name) if _GENERAL.search(words) else None) or _first(_OTHER_WORDS, words) or "unknown"


def _made_for(name: str) -> KernelKind | None:
    return _first(_MADE_FOR, NameParts.of(name).name.arguments or "")


def _first(rules: tuple[tuple[KernelKind, re.Pattern[str]], ...], text: str) -> KernelKind | None:
    return next((kind for kind, pattern in rules if pattern.search(text)), None)


def ops_of(name: str) -> str | None:
    """Return the ops that the name of a compiled fusion lists, as it does; None where it lists none."""
    if kind_of(name) != "fusion":
        return None
    return re.sub(r"^(?:loop|input|wrapped)_", "", fused_ops(NameParts.of(name).texts["words"])) or None


Part = Literal["multiplies", "layout", "helps"]

# Words of a kernel's own name that say nothing but that it moves elements to other places or types: layout changes of
# cuDNN and XLA (nchwToNhwc, tensorTransform, input_transpose_fusion), casts, copies of PyTorch's .to(). A layout alone
# (BiasNHWCKernel) is where a kernel works, and a permutation of rows (permute_2D_data) is no change of layout.
_LAYOUT: Final = re.compile(
    r"(?:^|_)(?:transposes?|transposed|permutation_kernel\w*|n[cdhw0-9]+_(?:to|2)_n[cdhw0-9]+|cast\w*|cvt|convert\w*?"
    r"|reformat|tensor_transform|direct_copy|(?:(?:loop|input|wrapped)_)?copy(?:_fusion)?)(?:_|\d|$)"
)
# The same of PyTorch, TensorRT, Eigen (casts, but not where they compute too) and TensorFlow (transpositions)
_COPIES: Final = re.compile(
    r"(?:direct|b?float\d+)_copy_kernel|genericReformat::|SwapDimension\dAnd\dInTensor|ShuffleInTensor\d"
    r"|^(?!.*(?:TensorCwise(?:Unary|Binary|Ternary)|Tensor(?:Tuple)?Reduc(?:tion|er))Op).*TensorConversionOp",
    re.DOTALL,
)
# Compilers name a fusion after the ops in it (loop_add_convert_fusion, triton_poi_fused__to_copy_add_3,
# __myl_CastMul_0x...): it changes layout or type alone where each of them does, or reads or writes in another place.
_FUSED: Final = re.compile(
    r"(?:[a-z]+_)??(?P<ops>[a-z_]+)_fusion[._\d]*|triton_[a-z]{3}_fused_(?P<too>\w+?)(?:_\d+)?"
    r"|_{2}myl_(?P<myelin>[a-z_]+?)(?:_myl\w*|_)?"
)
_MOVES: Final = frozenset(
    (
        *("loop", "input", "wrapped", "copy", "transpose", "convert", "bitcast", "reshape", "broadcast", "slice"),
        *("concatenate", "reverse", "pad", "to", "clone", "permute", "view", "expand", "squeeze", "unsqueeze", "t"),
        *("cast", "resh", "tran", "repl", "slic", "conc", "move"),  # TensorRT's (Myelin)
        *("as", "strided", "select", "alias", "detach", "element", "type", "prims", "unsafe", "contiguous"),
    )
)
# Kernels around the product of an algorithm for convolutions: they turn images into matrices, and transform operands
_TRANSFORMS: Final = re.compile(
    r"(?:^|_)(?:im2col\w*|col2im\w*|flip_filter|winograd_\w*(?:data|filter|output|delta|tiles)\w*)(?:_|\d|$)"
)
_FOURIER: Final = re.compile(r"^fft[12]d_[rc]2[rc]_")
_NOT_COPIES: Final = re.compile(r"(?:^|_)(?:cat|recat|batched|async)(?:_|$)")
_MULTIPLIES: Final = re.compile(MULTIPLIES, re.VERBOSE)
_DIRECT: Final = re.compile(r"direct|grouped|depthwise|c1_k1|convolve|(?:^|_)[dw]grad\d?d?_(?:alg|engine)")


@lru_cache(maxsize=65536)
def part_of(kernel: str) -> Part:
    """Return what part a kernel has in an op that multiplies matrices, by its name alone.

    A kernel of whose name no rule knows that it moves or maps data counts as one that multiplies.
    """
    verdict, texts = by_name(kernel), NameParts.of(kernel).texts
    words = texts["words"]
    moves = (_LAYOUT.search(words) and not _NOT_COPIES.search(words)) or _COPIES.search(texts["whole"])
    if verdict.uses_tc != "yes" and moves and not _MULTIPLIES.search(words):
        return "helps" if _computes_too(words) else "layout"
    beside = verdict.uses_tc != "yes" and _TRANSFORMS.search(words) and "gemm" not in words
    return "multiplies" if may_multiply(verdict) and not beside else "helps"


def fused_ops(words: str) -> str:
    """Return the ops that the words of a compiler's fusion list, as they do; empty where it is none or lists none."""
    fused = _FUSED.fullmatch(words)
    return "" if fused is None else fused["ops"] or fused["too"] or fused["myelin"]


def _computes_too(words: str) -> bool:
    """Say whether a compiler's fusion, by the ops in its name, does more than change layout or type."""
    return any(op and not op.isdecimal() and op not in _MOVES for op in fused_ops(words).split("_"))


def transforms(kernel: str) -> bool:
    """Say whether a kernel transforms what a convolution multiplies, by its name: im2col, Winograd, cuDNN's FFT."""
    words = NameParts.of(kernel).texts["words"]
    return (_TRANSFORMS.search(words) or _FOURIER.search(words)) is not None


@lru_cache(maxsize=65536)
def is_direct(kernel: str) -> bool:
    """Say whether a kernel computes a convolution without turning it into a matrix product, by its name.

    cuDNN's grouped, direct and depthwise kernels, and its older ones for few channels (``implicit_convolve_sgemm``).
    """
    return _DIRECT.search(NameParts.of(kernel).texts["words"]) is not None
