"""What else the name of a kernel tells: library, generation, tile, stages, layout, alignment, accumulation, pass.

The grammars are those of cuBLAS and cuDNN (volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn), of CUTLASS's procedural names
(cutlass_80_tensorop_f16_s16816gemm_f16_128x64_32x6_nn_align8), of xmma (sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_
tilesize128x128x32_stage4_...) and of nvjet (nvjet_tst_192x192_64x4_2x1_v_bz_TNN).

How a product's grid fills a GPU: the blocks that fit on an SM, the waves that they make, how empty the last is.

A kernel whose blocks stay for all tiles (nvjet, stream-K, the persistent ones of Hopper and later) launches about one
block for each SM whatever it multiplies: its grid tells nothing.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.context import identified, parse_capability
from tcprobe.analysis.kernels.kinds import kind_of, ops_of
from tcprobe.analysis.kernels.rule import NameParts
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.hardware import Capability
from tcprobe.jsonfile import whole
from tcprobe.schema.columns import Names, Row, Table, Value
from tcprobe.schema.kinds import KernelKind, KernelLibrary
from tcprobe.schema.op import known_size
from tcprobe.schema.profile import Profile

_LIBRARIES: Final[tuple[tuple[KernelLibrary, re.Pattern[str]], ...]] = tuple(
    (library, re.compile(pattern))  # type: ignore[misc]
    for library, pattern in (
        ("nccl", r"^nccl(?:Dev)?Kernel"),
        ("tensorrt", r"_trt(?:_|$)|^trt_|^_*my[le]\d*_|_myl\d|genericReformat|generatedNativePointwise"),
        ("cudnn", r"cudnn|convolve_common_engine|(?:im|ex)plicit_convolve|precomputed_convolve|^fft[12]d_[rc]2[rc]"),
        ("cudnn", r"winograd(?:Forward|Wgrad|_)|xmma_[fdw]"),
        ("cudnn", r"^(?:[dw]grad\d?d?|conv2d)_(?:alg\d|engine|grouped_direct|c1_k1)"),
        ("cublas", r"nvjet_|cublas|gemv\w*[NT]_kernel|gemvNSP|gemmk1|gemmSN|splitKreduce|^dot_kernel|reduce_1Block"),
        ("cublas", r"(?:maxwell|pascal|volta|turing|ampere)_\w*gemm|^[sdcz]gemm_(?:\d|large)|xmma_\w*gemm"),
        ("flash-attention", r"^flash::|flash_(?:fwd|bwd)_|FlashAttn(?:Fwd|Bwd)"),
        ("pytorch", r"^(?:at|c10|caffe2)::|^fbgemm_gpu::|PyTorchMemEff|^fmha_cutlass"),
        ("tensorflow", r"^tensorflow::|_GPU_DT_"),
        ("eigen", r"^Eigen::"),
        ("cutlass", r"cutlass"),
        ("cub", r"^(?:cub|thrust)::"),
        ("curand", r"curand"),
        ("triton", r"^triton_|^gemm_fusion"),
        ("xla", r"^(?:wrapped|loop|input)_[a-z_]+|^(?:[a-z_]+_)?fusion[._\d]*$"),
    )
)
_GENERATIONS: Final = {
    "5": "maxwell", "6": "pascal", "70": "volta", "72": "volta", "75": "turing", "80": "ampere", "86": "ampere",
    "87": "ampere", "88": "ampere", "89": "ada", "90": "hopper",
}  # fmt: skip
_NAMED: Final = re.compile(r"(?i)(?<![a-z])(maxwell|pascal|volta|turing|ampere|hopper|blackwell)_")
_ARCHITECTURE: Final = re.compile(r"(?i)(?<![a-z])(?:sm_?|cutlass_)([5-9]\d|1[0-2]\d)(?!\d)")
_NVJET: Final = re.compile(
    r"nvjet_(?:sm\d+\w?_)?(?P<types>[a-z]{3,5})_(?P<tile>\d+x\d+)_(?P<k>\d+)x(?P<stages>\d+)(?:_\w*?(?P<layout>[TN]{3})\b)?"
)
_XMMA: Final = re.compile(
    r"xmma_\w*?_(?:b?f|tf|i|e\dm)\d+(?:(?:b?f|tf|i|e\dm)\d+)?_(?:(?:b?f|tf|i|e\dm)\d+)?(?P<sum>f16|f32|i32|f64)_"
)
_XMMA_TILE: Final = re.compile(r"tilesize(?P<tile>\d+x\d+)x(?P<k>\d+)(?:_stage(?P<stages>\d+))?")
_CUTLASS3: Final = re.compile(r"_(?P<tile>\d+x\d+)x(?P<k>\d+)_\d+x\d+x\d+_(?P<stages>\d+)?_?[nt]{3}_")
# the tile, then that of K with the stages; cuBLAS writes stages_, or nothing
_TILE: Final = re.compile(r"(?<![a-z\d])(?P<tile>\d{2,3}x\d{1,3})(?!x?\d)(?:_(?P<k>\d+)x(?P<stages>\d+)(?=_|$))?")
_STAGES: Final = re.compile(r"_stages_(?P<k>\d+)x(?P<stages>\d+)")
_THREADBLOCK: Final = re.compile(r"GemmShape<(?:\(int\))?(\d+), ?(?:\(int\))?(\d+), ?(?:\(int\))?(\d+)>")
_LAYOUT: Final = re.compile(r"(?i)_(?P<layout>[nt]{2})[nt]?(?=_|$)")
_ALIGNMENT: Final = re.compile(r"(?:align|_ldg)[ac]?(\d+)")
_SPLIT: Final = re.compile(r"(?i)split_?k(?!_?reduce)")
_SUMS: Final = {"s": "fp32", "h": "fp16", "i": "int32", "d": "fp64", "c": "fp32", "z": "fp64"}
_TYPES: Final = {"f16": "fp16", "f32": "fp32", "i32": "int32", "s32": "int32", "f64": "fp64"}
_SHAPE: Final = re.compile(r"(?<![a-z0-9])([hsidcz])(?:884|1688|168\d\d|88\d\d|161616|32816|83216|\d+x\d+x\d+)(?!\d)")
_BLAS: Final = re.compile(r"(?<![a-z])g?([sdczhi])(?:gemm|cudnn)")
_GRAMMATICAL: Final = frozenset({"matmul", "convolution", "recurrent"})  # kinds whose names follow these grammars
_ONE_PRODUCT: Final = frozenset({"Gemm", "GemmUniversal", "ImplicitGemmConvolution"})  # whose first shape is their tile
_PASSES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("dgrad", re.compile(r"(?i)dgrad|bprop_data|backward_data|backprop_?input|convBwdData")),
    ("wgrad", re.compile(r"(?i)wgrad|backward_filter|backprop_?filter|convBwdFilter")),
    ("forward", re.compile(r"(?i)fprop|conv\w*?_?(?:fwd|forward)|winogradForward|first_layer_fwd")),
)


class Details(Struct, frozen=True):
    """What the name of a kernel tells; None where it does not."""

    kind: KernelKind
    fused_ops: str | None = None  # of a compiled fusion, as its name lists them
    pass_: str | None = None  # of a convolution; column `pass`
    accumulates_in: str | None = None  # fp16, fp32, fp64, int32
    tile: str | None = None  # 128x256: rows and columns of the result that one block computes
    tile_k: int | None = None  # what of the dimension in between it holds at a time
    stages: int | None = None  # how many of those at once
    split_k: bool | None = None  # whether several blocks share that dimension; None where the name does not say so
    layout: str | None = None  # tn, nn, nt, tt: of the operands of a product
    alignment: int | None = None  # elements: a multiple of which the operands' contiguous dimensions must be
    library: KernelLibrary | None = None
    generation: str | None = None  # of the GPUs that it was first built for


def with_details(kernels: Table) -> Table:
    """Return the kernels table with the columns that the names of its kernels fill; each name is read once."""
    names = kernels.names("kernel")
    told = [details_of(name) for name in names.names]
    columns: dict[str, Any] = {}
    for field in Details.__struct_fields__:
        values, name = [getattr(one, field) for one in told], field.rstrip("_")
        if kernels.spec.column(name).kind == "str":
            columns[name] = Names.of(values).take(names.ids)
        else:
            columns[name] = np.array([np.nan if one is None else one for one in values], np.float64)[names.ids]
    return kernels.with_columns(**columns)


@lru_cache(maxsize=65536)
def details_of(name: str) -> Details:
    """Return what the name of a kernel tells."""
    parts, kind = NameParts.of(name), kind_of(name)
    function, passes = parts.texts["function"], kind == "convolution"
    told = Details(
        kind,
        fused_ops=ops_of(name),
        pass_=next((one for one, pattern in _PASSES if pattern.search(function)), None) if passes else None,
        library=_library(parts),
        generation=_generation(parts),
    )
    return _of_product(parts, told, by_name(name).uses_tc == "yes") if kind in _GRAMMATICAL else told


def _of_product(name: NameParts, told: Details, on_tensor_cores: bool) -> Details:
    """Add what the grammars of products tell."""
    function = name.texts["function"]
    split = True if _SPLIT.search(function) else None
    if found := _NVJET.search(function):
        types = found["types"]
        return replace(
            told,
            accumulates_in=_SUMS.get(types[1] if len(types) == 3 else types[3:4]),
            tile=found["tile"],
            tile_k=int(found["k"]),
            stages=int(found["stages"]),
            split_k=split,
            layout=found["layout"] and found["layout"][:2].lower(),
        )
    tile, k, stages = _tile(function, name.name.arguments or "")
    xmma = _XMMA.search(function)
    layout = _LAYOUT.search(function) if told.kind == "matmul" else None
    aligned = [int(size) for size in _ALIGNMENT.findall(function)] if on_tensor_cores or "simt" in function else []
    return replace(
        told,
        accumulates_in=_TYPES.get(xmma["sum"]) if xmma else _sums(function, on_tensor_cores),
        tile=tile,
        tile_k=k,
        stages=stages,
        split_k=split,
        layout=layout and layout["layout"].lower(),
        alignment=min(aligned, default=None),
    )


def _tile(function: str, arguments: str) -> tuple[str | None, int | None, int | None]:
    """Return the tile, what it holds of K and how often."""
    if found := _THREADBLOCK.search(arguments):
        return (f"{found[1]}x{found[2]}", int(found[3]), None) if function in _ONE_PRODUCT else (None, None, None)
    if not (found := _XMMA_TILE.search(function) or _CUTLASS3.search(function) or _TILE.search(function)):
        return None, None, None
    depth = found if found["k"] else _STAGES.search(function)
    if depth is None:
        return found["tile"], None, None
    return found["tile"], int(depth["k"]), int(depth["stages"] or 0) or None  # CUTLASS writes 0: as many as fit


def _sums(function: str, on_tensor_cores: bool) -> str | None:
    """Return what a kernel sums in, by the letter before the MMA shape or BLAS routine: h is half precision."""
    found = (_SHAPE if on_tensor_cores else _BLAS).search(function)
    return _SUMS[found[1]] if found else None


def _library(name: NameParts) -> KernelLibrary | None:
    path, function = name.texts["path"], name.texts["function"]
    return next((one for one, pattern in _LIBRARIES if pattern.search(function) or pattern.search(path)), None)


def _generation(name: NameParts) -> str | None:
    """Return the GPUs that a kernel was first built for; those of its template arguments count too."""
    function = name.texts["function"]
    if found := _NAMED.search(function):
        return found[1].lower()
    for word in (function, *name.arguments):
        if found := _ARCHITECTURE.search(word):
            number = found[1]
            return "blackwell" if int(number) >= 100 else _GENERATIONS.get(number) or _GENERATIONS.get(number[0])
    return "hopper" if function.startswith("nvjet_") else None


WARP: Final = 32
REGISTERS: Final = 65_536
"""Of an SM, in four parts, since Volta; a warp gets them by 256."""
_PARTS: Final = 4
_REGISTERS_AT_ONCE: Final = 256


class _Limits(NamedTuple):
    """What an SM holds."""

    warps: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int  # of each block, by the system


# CUDA C++ Programming Guide, Technical Specifications per Compute Capability; the reserved 1 KiB: NVIDIA Ampere GPU
# Architecture Tuning Guide, Unified Shared Memory/L1/Texture Cache
_LIMITS: Final[dict[Capability, _Limits]] = {
    (7, 0): _Limits(64, 32, 96 * 1024, 0),
    (7, 5): _Limits(32, 16, 64 * 1024, 0),
    (8, 0): _Limits(64, 32, 164 * 1024, 1024),
    (8, 6): _Limits(48, 16, 100 * 1024, 1024),
    (8, 9): _Limits(48, 24, 100 * 1024, 1024),
    (9, 0): _Limits(64, 32, 228 * 1024, 1024),
    (10, 0): _Limits(64, 32, 228 * 1024, 1024),
    (12, 0): _Limits(48, 24, 100 * 1024, 1024),
}
_STATIC: Final = ("maxwell", "pascal", "volta", "turing")
"""Of these generations the libraries' products hold their tiles in static shared memory."""
_PERSISTS: Final = re.compile(r"(?i)nvjet|stream_?k|persist|segment_k|warpspecialized|warp_?group")


class Waves(NamedTuple):
    """How often the blocks of one launch fill the GPU."""

    blocks: int  # of the grid
    blocks_per_sm: int  # that run on an SM at once
    waves: float  # the grid over all blocks that run at once
    outputs_at_most: int  # elements of the result: blocks x tile

    @property
    def empty(self) -> float:
        """Return the share of all waves that is empty, 0 to below 1."""
        return 1.0 - self.waves / math.ceil(self.waves)


class Sizes(NamedTuple):
    """What is known of a GPU."""

    capability: Capability
    sm: int


def sizes_of(profile: Profile) -> dict[int, Sizes]:
    """Return compute capability and SMs of each GPU of which both are known, by ordinal."""
    found: dict[int, Sizes] = {}
    for row in profile.require("devices").rows():
        gpu = identified(row).gpu if row["vendor"] in (None, "Nvidia") else None
        capability = parse_capability(row["compute_capability"]) or (gpu and gpu.compute_capability)
        sm = row["sm_count"] or (gpu and gpu.sm)
        if capability in _LIMITS and sm:
            found[int(row["device"] or 0)] = Sizes(capability, int(sm))
    return found


def waves_of(kernel: str, config: Row, sizes: Sizes) -> Waves | None:
    """Return the waves of a launch; None where its tile, configuration or SMs are unknown, or its blocks persist.

    Args:
        kernel: its name, which tells the tile.
        config: a row with the columns of `launch_configs`.
        sizes: of the GPU.
    """
    told = details_of(kernel)
    grid, block = (_size(config[name]) for name in ("grid", "block"))
    if told.tile is None or told.generation in ("hopper", "blackwell") or _PERSISTS.search(kernel):
        return None
    if config["dynamic_shared_bytes"] is None and told.generation not in _STATIC:
        return None
    fit = None if block is None else blocks_per_sm(block, config, sizes.capability)
    if not grid or not fit or grid == sizes.sm:
        return None
    rows, columns = (int(size) for size in told.tile.split("x"))
    return Waves(grid, fit, grid / (fit * sizes.sm), grid * rows * columns)


def blocks_per_sm(threads: int, config: Row, capability: Capability) -> int | None:
    """Return how many blocks of a kernel an SM runs at once; None where a limit of it is not known, or none fits.

    Args:
        threads: of a block.
        config: a row with registers (of a thread) and shared memory (of a block).
        capability: of the GPU.
    """
    registers, static, dynamic = (config[name] for name in ("registers", "static_shared_bytes", "dynamic_shared_bytes"))
    limits = _LIMITS.get(capability)
    if limits is None or registers is None or (static is None and dynamic is None) or threads < 1:
        return None
    warps = -(-threads // WARP)
    a_warp = max(1, -(-int(registers) * WARP // _REGISTERS_AT_ONCE)) * _REGISTERS_AT_ONCE
    by_registers = REGISTERS // _PARTS // a_warp * _PARTS // warps
    shared = int(static or 0) + int(dynamic or 0) + limits.reserved_bytes
    by_shared = limits.shared_bytes // shared if shared else limits.blocks
    return min(limits.warps // warps, by_registers, by_shared, limits.blocks) or None


def _size(text: Value) -> int | None:
    """Return the blocks of a grid, or the threads of a block; None where it is no sizes, or more than any has."""
    sizes = [whole(part) for part in str(text).split(",")]
    return known_size(math.prod(size for size in sizes if size is not None)) if None not in sizes else None
