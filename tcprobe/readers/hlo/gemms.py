"""Find the matrix multiplications of an HLO module in what it executes: dots, convolutions, library calls.

A kernel belongs to an executed instruction: one of the entry computation, or of a computation that control flow
calls. The dot itself may be inside: in a fusion (Triton, cuDNN), or written as a call into cuBLAS or cuDNN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from tcprobe.gemm.conv import ConvPass
from tcprobe.gemm.ops import family_of
from tcprobe.jsonfile import Count, Text, parse, record, whole
from tcprobe.readers.hlo.module import MOST_DEPTH, HloShape, Instruction, Module, dtypes_of, shapes_json
from tcprobe.readers.protobuf import DamagedError
from tcprobe.schema.columns import Value

GEMM_OPCODES: Final = ("dot", "convolution")
CONTROL: Final = ("while", "conditional", "call", "async-start")  # instructions whose computations run as their own
EMITTED: Final = {"kLoop": "loop fusion", "kInput": "input fusion"}
MOST_TRIPS: Final = 10**9
MOST_PRODUCTS: Final = 256  # of one instruction; a fusion of XLA holds one or two
# xla/service/gpu/cublas_cudnn.cc: targets of the library calls
CUBLAS: Final = ("__cublas$gemm", "__cublas$lt$matmul")
OTHER_CALLS: Final = re.compile(r"dnn|blas|gemm|matmul|conv|fmha|attention", re.IGNORECASE)
CUDNN: Final[dict[str, ConvPass]] = {
    "__cudnn$convForward": "forward",
    "__cudnn$convBiasActivationForward": "forward",
    "__cudnn$convBackwardInput": "dgrad",
    "__cudnn$convBackwardFilter": "wgrad",
}


class HloGemm(Struct, frozen=True):
    """A dot or convolution, and the instruction that executes it."""

    executed: Instruction
    opcode: str
    op_name: str
    op_type: str
    inputs: tuple[HloShape, ...]
    output: HloShape
    attributes: dict[str, Any]  # dimension numbers and window in terms of a plain dot or convolution of these operands
    pass_: ConvPass | None = None  # where the library call says it


class Executed(Struct, frozen=True):
    """An instruction that runs on its own; a fusion counts as one."""

    instruction: Instruction
    times: int | None = 1  # how often in one execution of its module; None in a loop of unknown length
    sure: bool = True  # False in a branch, of which another may run instead


def executed_instructions(module: Module) -> Iterator[Executed]:
    """Yield the instructions that run on their own, each once."""
    waiting: list[tuple[int, int | None, bool]] = [(module.entry, 1, True)]
    seen: set[int] = set()
    while waiting:
        key, times, sure = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        for instruction in module.computations.get(key, []):
            yield Executed(instruction, times, sure)
            if instruction.opcode in CONTROL:
                trips = _trips(instruction) if instruction.opcode == "while" else 1
                inside = None if times is None or trips is None else min(times * trips, MOST_TRIPS)
                waiting += [(c, inside, sure and instruction.opcode != "conditional") for c in instruction.calls]


def unread_calls(module: Module) -> Iterator[str]:
    """Yield the targets of library calls that may multiply, but of which nobody told here what they multiply."""
    for instruction in module.by_name.values():
        target = instruction.target
        if OTHER_CALLS.search(target) and not target.startswith(CUBLAS) and target not in CUDNN:
            yield target


class _Trips(Struct):
    n: Count | Text = ""


class _Numbers(Struct):
    lhs_contracting_dimensions: list[Count | Text] = []
    rhs_contracting_dimensions: list[Count | Text] = []
    lhs_batch_dimensions: list[Count | Text] = []
    rhs_batch_dimensions: list[Count | Text] = []


class _Configuration(Struct):
    """What is read of a backend configuration, which protobuf wrote as JSON; int64 are strings in it."""

    known_trip_count: _Trips | None = None  # of a while loop, where XLA found it out (WhileLoopBackendConfig)
    dot_dimension_numbers: _Numbers | None = None  # of a GEMM (GemmBackendConfig)
    gemm_backend_config: _Configuration | None = None  # the same in newer versions


def _configuration(text: str) -> _Configuration:
    try:
        return record(_Configuration, parse(text or "{}")) or _Configuration()
    except ValueError:
        return _Configuration()


def _trips(loop: Instruction) -> int | None:
    """Return how often a while loop runs, where XLA found it out."""
    known = _configuration(loop.backend_config).known_trip_count
    return whole(str(known.n)) if known else None


def gemms_of(module: Module, executed: Instruction) -> list[HloGemm]:
    """Return the multiplications that `executed` performs.

    Raises:
        DamagedError: there are more than XLA puts into one instruction.
    """
    found = list(islice(_inside(module, executed, 0, set()), MOST_PRODUCTS + 1))
    if len(found) > MOST_PRODUCTS:
        raise DamagedError(f"instruction {executed.name[:60]} holds more than {MOST_PRODUCTS} products")
    return [replace(gemm, executed=executed) for gemm in found]


def _inside(module: Module, instruction: Instruction, depth: int, seen: set[int]) -> Iterator[HloGemm]:
    found = _gemm(module, instruction)
    if found is not None:
        yield found
        return
    if depth >= MOST_DEPTH or instruction.opcode in CONTROL:
        return
    for key in instruction.calls:
        if key not in seen and len(seen) < MOST_PRODUCTS:
            seen.add(key)
            for inner in _telling(module).get(key, ()):
                yield from _inside(module, inner, depth + 1, seen)


def _telling(module: Module) -> dict[int, list[Instruction]]:
    """Return of each computation the instructions that multiply, or call what does: all that `_inside` must see."""
    if module.telling is None:
        callers: dict[int, list[int]] = {}
        held = [key for key, found in module.computations.items() if any(map(_multiplies, found))]
        for key, found in module.computations.items():
            for called in {c for one in found if one.opcode not in CONTROL for c in one.calls}:
                callers.setdefault(called, []).append(key)
        holding = set(held)
        while held:
            new = set(callers.get(held.pop(), ())) - holding
            holding |= new
            held += new
        module.telling = {key: _distinct(module.computations[key], holding) for key in holding}
    return module.telling


def _distinct(found: list[Instruction], holding: set[int]) -> list[Instruction]:
    """Return the instructions that multiply, and of those that call the same computations with products the first."""
    told: dict[object, Instruction] = {}
    for one in found:
        called = tuple(key for key in one.calls if key in holding)
        if _multiplies(one) or called:
            told.setdefault(id(one) if _multiplies(one) else called, one)
    return list(told.values())


def _multiplies(instruction: Instruction) -> bool:
    opcode, target = instruction.opcode, instruction.target
    return opcode in GEMM_OPCODES or target.startswith(CUBLAS) or target in CUDNN


def _gemm(module: Module, instruction: Instruction) -> HloGemm | None:
    inputs = tuple(module.operands(instruction)[:2])
    gemm = HloGemm(
        instruction,
        instruction.opcode,
        instruction.op_name,
        instruction.op_type,
        inputs,
        instruction.shape.array,
        instruction.attributes,
    )
    if instruction.opcode in GEMM_OPCODES:
        return gemm
    if instruction.target.startswith(CUBLAS):
        return replace(gemm, opcode="dot", attributes=_cublas_numbers(instruction.backend_config))
    kind = CUDNN.get(instruction.target)
    if kind is None:
        return None
    plain = _plain_convolution(instruction.attributes, kind)
    return replace(gemm, opcode="convolution", attributes=plain, pass_=kind)


def _cublas_numbers(config: str) -> dict[str, Any]:
    found = _configuration(config)
    numbers = (found.gemm_backend_config or found).dot_dimension_numbers
    if numbers is None:
        return {}
    given = {side: [whole(str(one)) for one in axes] for side, axes in asdict(numbers).items()}
    return {"dot_dimension_numbers": {side: [n for n in axes if n is not None] for side, axes in given.items()}}


# role in the plain convolution that a gradient is <- role in the forward convolution that cuDNN's numbers describe
_AS_DGRAD: Final = {
    "input_batch_dimension": "output_batch_dimension",
    "input_feature_dimension": "output_feature_dimension",
    "input_spatial_dimensions": "output_spatial_dimensions",
    "kernel_input_feature_dimension": "kernel_output_feature_dimension",
    "kernel_output_feature_dimension": "kernel_input_feature_dimension",
    "kernel_spatial_dimensions": "kernel_spatial_dimensions",
    "output_batch_dimension": "input_batch_dimension",
    "output_feature_dimension": "input_feature_dimension",
    "output_spatial_dimensions": "input_spatial_dimensions",
}
_AS_WGRAD: Final = {
    "input_batch_dimension": "input_feature_dimension",
    "input_feature_dimension": "input_batch_dimension",
    "input_spatial_dimensions": "input_spatial_dimensions",
    "kernel_input_feature_dimension": "output_batch_dimension",
    "kernel_output_feature_dimension": "output_feature_dimension",
    "kernel_spatial_dimensions": "output_spatial_dimensions",
    "output_batch_dimension": "kernel_input_feature_dimension",
    "output_feature_dimension": "kernel_output_feature_dimension",
    "output_spatial_dimensions": "kernel_spatial_dimensions",
}


def _plain_convolution(attributes: dict[str, Any], kind: ConvPass) -> dict[str, Any]:
    """Return the attributes of the plain convolution that a cuDNN call computes on its own operands.

    cuDNN's numbers and window describe the forward convolution in every direction. The input gradient is a
    convolution of a dilated image (base dilation = stride), the weight gradient one with a dilated window. A
    gradient of a grouped convolution is none of both, so its numbers are left out.
    """
    numbers = attributes.get("convolution_dimension_numbers")
    if kind == "forward" or numbers is None:
        return attributes
    if attributes.get("feature_group_count", 1) > 1 or attributes.get("batch_group_count", 1) > 1:
        return {}
    roles = _AS_DGRAD if kind == "dgrad" else _AS_WGRAD
    moved = "base_dilation" if kind == "dgrad" else "window_dilation"
    axes = [{moved: axis.get("stride", 1)} for axis in attributes.get("window", {}).get("dimensions", [])]
    return {
        "convolution_dimension_numbers": {new: numbers[old] for new, old in roles.items()},
        "window": {"dimensions": axes},
    }


def graph_row(module: Module, gemm: HloGemm, executed: Executed) -> dict[str, Value]:
    """Return the row of `graph_ops` for one multiplication of an executed instruction.

    One that XLA left without a name has that of the fusion around it, and is marked.
    """
    unnamed = {} if gemm.op_name else {"unnamed": True}
    return {
        "function": module.name,
        "op": gemm.op_name or gemm.executed.op_name or gemm.executed.name,
        "op_type": gemm.opcode,
        "executed_op": gemm.executed.name,
        "executed_type": gemm.executed.opcode,
        "executes": "yes" if executed.sure else "unknown",
        "executes_basis": "optimised HLO",
        "calls_per_step": executed.times,
        "pass": gemm.pass_ or pass_of(gemm.op_type or gemm.op_name),
        "input_shapes": shapes_json(list(gemm.inputs)),
        "input_dtypes": json.dumps([s.dtype for s in gemm.inputs]),
        "output_shape": json.dumps(list(gemm.output.dimensions)),
        "output_dtype": gemm.output.dtype,
        "attributes": json.dumps({**gemm.attributes, **unnamed}, sort_keys=True),
    }


def pass_of(op: str) -> ConvPass | None:
    """Return the pass that the type or the last part of the name of a TensorFlow op tells; None otherwise."""
    last = op.rpartition("/")[2]
    if "BackpropFilter" in last:
        return "wgrad"
    return "dgrad" if "BackpropInput" in last else None


def _type_without_gemm(instruction: Instruction) -> str:
    """Return the framework's type of an instruction that multiplies nothing; its opcode where that type would.

    XLA names what it makes of a MatMul like the MatMul: the copy of an operand, the conversion of the result. What
    other a library call does is not known. A fusion of a loop or a reduction is named as XProf's categories name it:
    XLA's own emitters wrote it, and none of them multiplies matrices.
    """
    if instruction.fusion_kind in EMITTED:
        return EMITTED[instruction.fusion_kind]
    foreign = instruction.opcode != "custom-call" and family_of(instruction.op_type) is not None
    return instruction.opcode if foreign else instruction.op_type or instruction.opcode


def op_row(module: Module, instruction: Instruction) -> dict[str, Value]:
    """Return the row of `op_details` for an executed instruction."""
    gemms = gemms_of(module, instruction)
    one = gemms[0] if len(gemms) == 1 else None
    inputs = list(one.inputs) if one else module.operands(instruction)
    output = one.output if one else instruction.shape.array
    name = (one.op_name if one else "") or instruction.op_name or instruction.name
    kind = gemms[0].opcode if gemms else _type_without_gemm(instruction)
    return {
        "op": name,
        "op_type": kind,
        "hlo_op": instruction.name,
        "hlo_module": module.name,
        "dtype": dtypes_of(list(gemms[0].inputs)) if gemms else dtypes_of(inputs),
        "input_shapes": shapes_json(inputs),
        "output_shape": json.dumps(list(output.dimensions)),
        "output_dtype": None if instruction.shape.parts else output.dtype,
    }
