"""One rule about kernel names, the parts of a name that rules look in, and the words that names are made of."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct

from tcprobe.analysis.kernels.cxx import KernelName, parse, split_list
from tcprobe.schema.kinds import UsesTc

# whole: the text as it is; path: scopes and function; function: its own name; signature: function<argument, ...;
# words: the function's words; argument: each identifier of the template arguments; parameters: types, as written
Part = Literal["whole", "path", "function", "signature", "words", "argument", "parameters"]
# kernels that run what their first template argument names
_CARRIERS: Final = re.compile(r"Kernel2?|device_kernel|enable_\w+|attention_kernel_(?:backward_)?batched_impl")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_SIGNATURE: Final = 80
# Characters that are read of a kernel's whole name, and of those of its parts in which rules search; the longest name
# recorded has 8,078 (template arguments within one another).
LONGEST_NAME: Final = 65_536
LONGEST_FUNCTION: Final = 1_024
_LONGEST_PATH: Final = 4_096


class Sought(Struct, frozen=True, eq=False):
    """A pattern, and the part of a name in which it counts; result type and parameters are no such part."""

    part: Part  # where to search
    pattern: re.Pattern[str]  # what to search; a group ``token`` is what decided
    unless: re.Pattern[str] | None = None  # not where the words of the function hold this


class NameRule(Struct, frozen=True):
    """One claim about the kernels whose name matches."""

    id: str  # stable identifier, documented in docs/classification.md
    verdict: UsesTc  # whether such a kernel uses Tensor Cores
    sought: tuple[Sought, ...]  # one of these must be found
    says: str  # why, in words that follow the matched part of the name
    source: str  # where the claim comes from
    # whether such a kernel multiplies matrices; else it moves or maps data, and what it has of 8-bit and narrower types
    # it stores only
    multiplies: bool = True


class NameParts(Struct, frozen=True):
    """The parts of a kernel's name as rules look in them."""

    texts: dict[Part, str]  # part -> text; without ``argument``
    arguments: tuple[str, ...]  # distinct identifiers of the template arguments, in their order
    name: KernelName  # as parsed

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, text: str) -> NameParts:
        """Parse a name; a kernel that carries another in its first template argument counts as that one."""
        name = parse(text[:LONGEST_NAME])
        subject = _carried(name)
        function = subject.function[:LONGEST_FUNCTION]
        path = name.path if subject is name else f"{name.path} {subject.path}"
        arguments = tuple(dict.fromkeys(_IDENTIFIER.findall(name.arguments or "")))
        texts: dict[Part, str] = {
            "whole": text[:LONGEST_NAME],
            "path": path[:_LONGEST_PATH],
            "function": function,
            "signature": f"{function}<{(subject.arguments or '')[:_SIGNATURE]}",
            "words": words_of(function),
            "parameters": (name.parameters or "")[:_LONGEST_PATH],
        }
        return cls(texts, arguments, name)

    def token(self, sought: Sought) -> str | None:
        """Return what of the name matches; None where nothing does. Not for arguments."""
        found = sought.pattern.search(self.texts[sought.part])
        if found is None or (sought.unless and sought.unless.search(self.texts["words"])):
            return None
        return found.groupdict().get("token") or found[0]


def is_cut(text: str) -> bool:
    """Say whether a kernel's name is longer than what is read of it, as a whole or in its function."""
    if len(text) <= LONGEST_FUNCTION:
        return False
    return len(text) > LONGEST_NAME or len(_carried(parse(text)).function) > LONGEST_FUNCTION


def _carried(name: KernelName) -> KernelName:
    for _ in range(4):
        if not (name.arguments and _CARRIERS.fullmatch(name.function)):
            return name
        name = parse(split_list(name.arguments)[0])
    return name


def words_of(function: str) -> str:
    """Return a function's own name as lower-case words joined by underscores."""
    bare = re.sub(r"_?0x[0-9a-f]+", "", function)
    bare = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", bare)
    return bare.lower()


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a verbose pattern without regard to case."""
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE | re.ASCII)


def seek(part: Part, pattern: str, unless: str | None = None) -> Sought:
    """Search a part for a verbose pattern, without regard to case.

    Args:
        part: of the name.
        pattern: to search.
        unless: not where the words of the function hold this.
    """
    return Sought(part, compiled(pattern), None if unless is None else compiled(unless))


def whole_words(alternatives: str) -> str:
    """Return a pattern for words that no letter precedes or follows; digits may."""
    return rf"(?<![a-z])(?:{alternatives})(?![a-z])"


# Words of kernels that may multiply matrices: where one stands, no other word proves the contrary. The first may
# stand within a word. qk alone is one; with what is done to it (qk_norm, qkv_split) it is an object.
_PRODUCT: Final = "gemm(?!a) | matmul | flash(?!infer) | attention | convol | mul_mat"
_WITHIN: Final = f"{_PRODUCT} | tensor_?core"
_PRODUCTS: Final = r"""
    (?:mat|matrix|mtx)_?(?:mul|vec)\w* | mm | bmm | b?addmm | spmm | sddmm | conv\d*d? | deconv\w*
    | [dw]grad\w* | fprop | attn | \w{0,20}mha | mla | sdpa | linear | mlp | ffn | dot\w* | dense | einsum
    | lstm | gru | rnn | moe | experts? | lora\w* | [bs]gmv\w* | chunk\w* | ss[dm] | retention | delta | gla | fla
    | gdn | nsa | fp8_index | kkt | recompute | lm_head
    | qk(?!v?_?(?:rms_?|apply_?)?(?:norm|rope|rotary|bias|split|reshape|transpose|pad))\w*
    | proj\w* | fc\d* | outer | gram | cdist | syrk | trsm | trmm | hadamard
    | marlin | prefill | first_layer
"""
MULTIPLIES: Final = f"{_WITHIN} | " + whole_words(f"(?:[hidqbwu]|wg)?mma | {_PRODUCTS}")
# Names that hold the name of a Tensor Core instruction or operator class, and are of what is done about it: no word of
# a product, and one of counting or copying (hmma_counter_reset, tensorop_copy_kernel)
MENTIONS: Final = rf"^(?!.*(?:{_PRODUCT} | {whole_words(_PRODUCTS)})).*?" + whole_words(
    r"counters? | reset | (?<!async_)copy | cpy | memcpy | memset | fill | init\w* | clear | stats"
)
# Those that a framework's own kernels have only if they multiply: its lstm_cell, cdist and bilinear are pointwise
FRAMEWORK_MULTIPLIES: Final = f"{_WITHIN} | " + whole_words(
    r"mm | bmm | b?addmm | (?:[hidqbwu]|wg)?mma | conv\d*d? | attn | \w{0,20}mha | sdpa | einsum"
)
MOVES_OR_MAPS: Final = r"""
    element_?wise | eltwise | point_?wise | vectorized | unary | binary | activation | relu\d? | leaky | elu | selu
    | gelu | silu | swish | mish | swiglu | geglu | glu | sigmoid | tanh | softplus | (?:log_?)?soft_?max\d?
    | cross_entropy | nll | exp | log | pow | sqrt | rsqrt | abs | neg | sin | cos | erf | [a-z]{0,12}norm\w* | adds?
    | addition\d? | sub | subtract | mul | multiply | div | divide | axpy | scal | scale | copy | cpy | memcpy | memset
    | move? | fill | set | zeros? | ones | init\w* | cast\w* | cvt | convert\w* | transposes? | transposed | permut\w*
    | unpermute | reshape | reformat | concat\w* | cat | stack | slic\w* | strided | gather\w* | scatter\w* | index\w*
    | indices | get_rows | embedding\w* | lookup | reduc\w* | sum | mean | max | min | argmax | argmin | top_?k
    | sort\w* | radix | scan | cumsum | cumprod | drop_?out | bias | bcast | pool\w* | resiz\w* | interp\w*
    | upsampl\w* | pad\w* | unpad | pack | repack\w* | unpack\w* | quant | quantiz\w* | dequant\w* | rotary | rope
    | adam\w* | sgd | momentum | lamb | rmsprop | optimi[sz]er\w* | unique | random | philox | rand | rng | uniform
    | normal | histogram | one_?hot | arange | clamp | clip | compare | where | mask\w* | tril | triu | nan | finite
    | im2col | col2im | nonzero | flip | roll | sampl\w* | grid_stride | backoff | nchw\w* | nhwc\w* | kv_?cache | cache
    | flatten | expand | broadcast | select | nms | roi\w* | redzone\w* | delay | spin | sleep | iota | reverse\w*
    | bitcast\w* | maximum | minimum | negate | logistic | power | floor | ceil | round | sign | routing\w*
    | resh | tran | repl
"""
