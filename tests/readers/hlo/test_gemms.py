"""The multiplications of an HLO module, worked by hand for one training step."""

from __future__ import annotations

import json
import math

import pytest
from google.protobuf.message import DecodeError

from tcprobe.gemm.ops import gemms_of as products_of
from tcprobe.gemm.record import flops_of
from tcprobe.readers.hlo.gemms import executed_instructions, gemms_of, graph_row, pass_of
from tcprobe.readers.hlo.module import Module, read_module
from tcprobe.readers.protobuf import DamagedError
from tcprobe.schema.op import OpRecord
from tests.fixtures.xplane.make import hlo_module
from tests.fixtures.xplane.schema import HloProto


def module(proto: object | None = None) -> Module:
    raw = (proto or hlo_module()).SerializeToString()  # type: ignore[attr-defined]
    return read_module("train(36)", bytearray(raw), (0, len(raw)))


def rows(found: Module) -> dict[str, dict[str, object]]:
    made = [graph_row(found, gemm, e) for e in executed_instructions(found) for gemm in gemms_of(found, e.instruction)]
    return {str(row["executed_op"]): dict(row) for row in made}


def test_instructions_of_fusions_do_not_run_on_their_own() -> None:
    names = {e.instruction.name for e in executed_instructions(module())}
    assert "gemm_fusion_dot.2" in names
    assert "while.1" in names
    assert "dot.3" not in names


def test_library_calls_and_fusions_are_found() -> None:
    kinds = {name: row["op_type"] for name, row in rows(module()).items()}
    assert kinds == {
        "custom-call.1": "dot",
        "cudnn.0": "convolution",
        "cudnn.1": "convolution",
        "cudnn.2": "convolution",
        "gemm_fusion_dot.2": "dot",
    }


def test_cublas_numbers_are_strings_in_its_configuration() -> None:
    numbers = json.loads(str(rows(module())["custom-call.1"]["attributes"]))["dot_dimension_numbers"]
    assert numbers["lhs_contracting_dimensions"] == [1]
    assert numbers["rhs_contracting_dimensions"] == [0]
    assert numbers["lhs_batch_dimensions"] == []


def test_a_dot_in_a_fusion_has_its_own_name_and_shapes() -> None:
    row = rows(module())["gemm_fusion_dot.2"]
    assert (row["op"], row["executed_type"]) == ("model/loop/MatMul", "fusion")
    assert (row["input_shapes"], row["input_dtypes"]) == ("[[2, 32, 16], [2, 16, 10]]", '["float16", "float32"]')


@pytest.mark.parametrize("call", ["cudnn.0", "cudnn.1", "cudnn.2"])
def test_every_direction_of_a_convolution_multiplies_as_often(call: str) -> None:
    """Forward: 8*8*8 positions x 6 filters x 3*3*4 window = 110,592.

    The input gradient is dilated: its image has stride 2, so it touches a quarter of the products it spans.
    """
    row = rows(module())[call]
    image, kernel = json.loads(str(row["input_shapes"]))
    result = json.loads(str(row["output_shape"]))
    attributes = json.loads(str(row["attributes"]))
    numbers = attributes["convolution_dimension_numbers"]
    taps = math.prod(kernel[d] for d in numbers["kernel_spatial_dimensions"])
    products = math.prod(result) * taps * kernel[numbers["kernel_input_feature_dimension"]]
    holes = math.prod(axis.get("base_dilation", 1) for axis in attributes["window"]["dimensions"])
    assert products // holes == 8 * 8 * 8 * 6 * 3 * 3 * 4
    op = OpRecord("convolution", (tuple(image), tuple(kernel)), tuple(result), attributes, None, str(row["pass"]))
    assert flops_of(products_of(op)) == 2 * 110_592
    assert image[numbers["input_feature_dimension"]] == kernel[numbers["kernel_input_feature_dimension"]]
    assert result[numbers["output_feature_dimension"]] == kernel[numbers["kernel_output_feature_dimension"]]


def test_passes_come_from_the_library_call_or_the_op() -> None:
    found = rows(module())
    assert [found[f"cudnn.{n}"]["pass"] for n in range(3)] == ["forward", "dgrad", "wgrad"]
    assert found["custom-call.1"]["pass"] is None
    assert pass_of("gradient_tape/conv/Conv2DBackpropFilter") == "wgrad"
    assert pass_of("model/MatMul") is None


def test_the_gradient_of_a_grouped_convolution_has_no_numbers() -> None:
    proto = hlo_module()
    for instruction in proto.hlo_module.computations[0].instructions:
        if instruction.name.startswith("cudnn"):
            instruction.feature_group_count = 2
    found = rows(module(proto))
    assert json.loads(str(found["cudnn.1"]["attributes"])) == {}
    assert json.loads(str(found["cudnn.0"]["attributes"]))["feature_group_count"] == 2


@pytest.mark.parametrize("config", [b"", b"not json", b"[]", b'{"gemm_backend_config": 3}', b"[" * 5000])
def test_a_configuration_of_another_kind_gives_no_numbers(config: bytes) -> None:
    proto = hlo_module()
    for instruction in proto.hlo_module.computations[0].instructions:
        if instruction.name == "custom-call.1":
            instruction.backend_config = config
    assert json.loads(str(rows(module(proto))["custom-call.1"]["attributes"])) == {}


def test_computations_that_call_each_other_end() -> None:
    proto = hlo_module()
    for computation in proto.hlo_module.computations:
        for instruction in computation.instructions:
            instruction.called_computation_ids.extend((1, 2, 3))
    assert "gemm_fusion_dot.2" in rows(module(proto))


def test_every_cut_of_a_module_is_refused_or_read() -> None:
    raw = hlo_module().SerializeToString()
    refused = 0
    for size in range(1, len(raw), 7):
        try:
            read_module("cut", bytearray(raw), (0, size))
        except DamagedError:
            refused += 1
            with pytest.raises(DecodeError):
                HloProto.FromString(raw[:size])
    assert refused > 100
