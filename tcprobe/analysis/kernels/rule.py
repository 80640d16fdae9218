"""One rule about kernel names, and the words that names are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tcprobe.schema.kinds import UsesTc


@dataclass(frozen=True, slots=True)
class NameRule:
    """One claim about the kernels whose name matches.

    Attributes:
        id: stable identifier, documented in docs/classification.md.
        verdict: whether such a kernel uses Tensor Cores.
        pattern: searched in the full name, or in its words where `in_words` is set; a group ``token`` is what decided.
        says: why, in words that follow the matched part of the name.
        source: where the claim comes from.
        in_words: match against `words_of(name)`.
    """

    id: str
    verdict: UsesTc
    pattern: re.Pattern[str]
    says: str
    source: str
    in_words: bool = False


def words_of(name: str) -> str:
    """Return the function's own name as lower-case words joined by underscores, without template and arguments."""
    bare = re.sub(r"\(anonymous namespace\)|<unnamed>|\{anonymous\}", "", name).removeprefix("void ")
    bare = re.sub(r"_?0x[0-9a-f]+", "", re.split(r"[<(]", bare, maxsplit=1)[0])
    bare = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare)
    return bare.lower()


def by_name(pattern: str) -> re.Pattern[str]:
    """Compile a verbose pattern without regard to case."""
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE | re.ASCII)


def by_words(having: str, without: str, within: str) -> re.Pattern[str]:
    """Match words that hold one of `having`, and none of `without` or of `within`, which may be part of a word."""
    guard = rf"(?!.*(?:{within}|(?<![a-z])(?:{without})(?![a-z])))"
    return by_name(rf"^{guard}.*?(?<![a-z])(?P<token>{having})(?![a-z])")


# Words of kernels that may multiply matrices: where one stands, no other word proves the contrary.
MULTIPLIES_WITHIN: Final = r"gemm(?!a) | matmul | flash(?!infer) | attention | convol | mul_mat | tensor_?core"
MULTIPLIES: Final = r"""
    (?:mat|matrix|mtx)_?(?:mul|vec)\w* | mm | bmm | b?addmm | spmm | sddmm | (?:[hidqbwu]|wg)?mma | conv\d*d?
    | deconv\w* | [dw]grad\w* | fprop | attn | \w{0,20}mha | mla | sdpa | linear | mlp | ffn | dot\w* | dense | einsum
    | lstm | gru | rnn | moe | experts? | lora\w* | [bs]gmv\w* | chunk\w* | ss[dm] | retention | delta | gla | fla
    | gdn | kkt | recompute | qkv?\w* | proj\w* | fc\d* | outer | gram | cdist | syrk | trsm | trmm | hadamard
    | marlin
"""
MOVES_OR_MAPS: Final = r"""
    element_?wise | point_?wise | vectorized | relu\d? | leaky | elu | selu | gelu | silu | swish | mish | swiglu
    | geglu | glu | sigmoid | tanh | softplus | (?:log_?)?soft_?max\d? | cross_entropy | nll | exp | log | pow | sqrt
    | rsqrt | abs | neg | sin | cos | erf | [a-z]{0,12}norm\w* | adds? | addition\d? | sub | subtract | mul | multiply
    | div | divide | axpy | scal | scale | copy | cpy | memcpy | memset | fill | set | zeros? | ones | init\w*
    | cast\w* | convert\w* | transposes? | transposed | permut\w* | unpermute | reshape | reformat | concat\w* | cat
    | stack | slic\w* | strided | gather\w* | scatter\w* | index\w* | embedding\w* | lookup | reduc\w* | sum | mean
    | max | min | argmax | argmin | top_?k | sort\w* | radix | scan | cumsum | cumprod | drop_?out | bias | pool\w*
    | resiz\w* | interp\w* | upsampl\w* | pad\w* | unpad | pack | repack\w* | unpack\w* | quant | quantiz\w*
    | dequant\w* | rotary | rope | adam\w* | sgd | momentum | lamb | rmsprop | optimi[sz]er\w* | unique | random
    | philox | rand | uniform | normal | histogram | one_?hot | arange | clamp | clip | compare | where | mask\w*
    | tril | triu | nan | finite | im2col | col2im | nonzero | flip | roll | sampl\w* | grid_stride | backoff
    | nchw\w* | nhwc\w* | kv_?cache | cache | flatten | expand | broadcast | select | nms | roi\w* | redzone\w*
    | delay | spin | sleep | iota | reverse\w* | bitcast\w* | maximum | minimum | negate | logistic | power | floor
    | ceil | round | sign
"""
