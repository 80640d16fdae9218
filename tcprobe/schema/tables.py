"""The contract of all tables: what a row is, and every column with its unit, range and meaning.

Readers fill the first half (what was recorded), the analysis the second (what follows from it). If a source
cannot give a table, the table is absent from the Profile and `Profile.absent` says why; if it cannot give a
column, the column is NA. Times are nanoseconds; ``start_ns`` counts from the start of the capture.
A table's key identifies its rows, so that two sources of one run can be joined. A range marks a step, a phase
(forward, backward, optimizer), a layer or an op; its kind says which, if the reader can tell.
``sum_ns`` counts overlapping kernels twice, ``union_ns`` counts them once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tcprobe.schema.advice import BOUNDS, REMEDIES, SHARES
from tcprobe.schema.columns import Column as C
from tcprobe.schema.columns import TableSpec as T
from tcprobe.schema.kinds import (
    BLOCKERS,
    CAUSE_GROUPS,
    CAUSES,
    CHANGES,
    FLOPS_GAPS,
    GENERATIONS,
    KERNEL_KINDS,
    KERNEL_LIBRARIES,
    NO_STEPS,
    RANGE_NUMBERS,
    RATE_BASES,
    REASONS,
    SIZE_ADVICE,
)
from tcprobe.schema.op import PASSES
from tcprobe.schema.waits import EVENT_WORK, HOST_WORK, STEP_LENGTHS

NAMELESS: Final = "(no name)"  # what a kernel without a name is called
USES_TC: Final = ("yes", "no", "unknown")
EXECUTES_BASES: Final = ("graph collection", "liveness", "traced", "eager", "optimised HLO", "length 1", "profile")
BASES: Final = ("counter", "name", "shape", "reported", "predicted", "measured", "graph", "inferred", "user")
RANGE_KINDS: Final = ("step", "phase", "layer", "op")
RANGE_BUCKETS: Final = ("range", "no enclosing range", "no launch record")
HELD_BY: Final = ("kernels", "between two", *HOST_WORK)
WHAT_IF_BASES: Final = ("measured x predicted", "measured x calibrated", "tile rates")
SAVINGS: Final = ("predicted", "calibrated", "measured x predicted", "measured x calibrated")
STEP_KINDS: Final = ("warm-up", "measured", "profiled", "after")
UNIT_BASES: Final = ("marks", "updates")
LIMITS: Final = ("compute", "memory", "launch")
_CAUSE: Final = C(
    "cause",
    "str",
    "why its time is spent as it is: of the costliest part, where there are several",
    values=CAUSES,
)
_RATE: Final = (
    C("achieved_tflop_per_s", "float", "FLOPs / time of its kernels, layout kernels apart; NA where either is unknown"),
    C(
        "peak_pct",
        "float",
        "that over the GPU's dense peak for the dtype, 0-100 (more where the count of FLOPs is off)",
    ),
    C("limit", "str", "what limits its speed, by the cost model: arithmetic, memory, launching it", values=LIMITS),
)
_BLOCKER: Final = (
    C("tc_blocker_kind", "str", "what keeps it off the Tensor Cores, as a kind", values=BLOCKERS),
    C("tc_blocker_dtype", "str", "dtype of an operand that they do not take, or of which that is not known"),
    C("tc_blocker_gpu", "str", "name of the GPU that does not take it"),
    C("tc_blocker_capability", "str", "compute capability of that GPU (7.5), where its name is not known"),
    C("tc_blocker_kernel", "str", "short name of the costliest kernel that ran without Tensor Cores"),
)

_TORCH: Final = C(
    "attributes",
    "str",
    "JSON object, of PyTorch: input_strides, a list for each input, in elements; arguments, all that are no tensor",
)
_CALLED_FROM: Final = C(
    "called_from", "str", "file:line where the innermost function of Python that calls it begins, PyTorch's own apart"
)

# --- what was recorded -------------------------------------------------------------------------------

LAUNCHES: Final = T(
    "launches",
    "one kernel launch as the GPU ran it",
    (
        C("device", "int", "GPU ordinal within the profile, row key of `devices`", nullable=False),
        C("stream", "int", "CUDA stream id; -1 where the source has none", nullable=False),
        C("start_ns", "int", "start on the GPU, from the start of the capture", nullable=False),
        C("duration_ns", "int", "time on the GPU", nullable=False),
        C("kernel", "str", "kernel name, demangled where the source has it", nullable=False),
        C("op_id", "int", "row of `op_details` that launched it; -1 where the source names no op", nullable=False),
        C("config_id", "int", "row of `launch_configs`; -1 where the source has none", nullable=False),
        C("correlation_id", "int", "CUPTI correlation id of the launch"),
        C("launch_ns", "int", "host time of the launch call, from the start of the capture"),
        C("iteration", "int", "step that launched it, as stored or as found by the launch time"),
        C("thread", "int", "host thread of the launch call, numbered as in `ranges`"),
        C("cuda_graph", "int", "id of the CUDA graph that held it; NA outside any, or where the source does not say"),
    ),
    capture=True,
)
LAUNCH_CONFIGS: Final = T(
    "launch_configs",
    "one distinct kernel configuration; `launches.config_id` is a row number",
    (
        C("registers", "int", "registers per thread"),
        C("static_shared_bytes", "int", "static shared memory per block"),
        C("dynamic_shared_bytes", "int", "dynamic shared memory per block"),
        C("block", "str", "threads per block, x,y,z"),
        C("grid", "str", "blocks per grid, x,y,z"),
        C("occupancy_pct", "float", "theoretical occupancy, 0-100"),
    ),
    capture=True,
)
OP_DETAILS: Final = T(
    "op_details",
    "one op as the profile names it; `launches.op_id` is a row number",
    (
        C("op", "str", "path of the op as the framework names it, without the type", nullable=False),
        C("op_type", "str", "type of the op (MatMul, _FusedConv2D, dot, custom-call)"),
        C("hlo_op", "str", "XLA: name of the HLO instruction"),
        C("hlo_module", "str", "XLA: module with program id, as in /host:metadata"),
        C("dtype", "str", "dtype of the op's inputs (float32, bfloat16); mixed ones joined by +"),
        C("input_shapes", "str", "JSON list of input shapes, null for an unknown dimension"),
        C("output_shape", "str", "JSON list"),
        C("output_dtype", "str", "dtype of its only output, where the source says it"),
        _TORCH,
        _CALLED_FROM,
        C("layer", "str", "path of the layer, where the source itself says which"),
        C("pass", "str", "pass, where the source itself says which", values=PASSES),
    ),
    capture=True,
)
MEMORY_OPS: Final = T(
    "memory_ops",
    "one copy, set or allocation on the device; never counted as a kernel",
    (
        C("device", "int", "GPU ordinal", nullable=False),
        C("stream", "int", "CUDA stream id", nullable=False),
        C("start_ns", "int", "start on the GPU", nullable=False),
        C("duration_ns", "int", "time on the GPU", nullable=False),
        C("kind", "str", "MemcpyH2D, MemcpyD2H, MemcpyD2D, MemcpyP2P, Memset, other", nullable=False),
        C("size_bytes", "int", "bytes moved or set"),
        C("iteration", "int", "step that launched it"),
        C("launch_ns", "int", "host time of the call, from the start of the capture"),
    ),
    capture=True,
)
HOST_OPS: Final = T(
    "host_ops",
    "one op as the host executed it, over the capture",
    (
        C("op", "str", "path of the op", nullable=False),
        C("op_type", "str", "type of the op", nullable=False),
        C("calls", "int", "times it ran", nullable=False),
        C("sum_ns", "int", "summed host time; on a CPU the time of the op itself", nullable=False),
        C("min_ns", "int", "shortest call", nullable=False),
        C("max_ns", "int", "longest call", nullable=False),
        C("input_shapes", "str", "JSON list of input shapes, as the trace has them"),
        C("profiler_id", "str", "name under which its profiler tells it from others of the same path: DLProf's Op ID"),
    ),
    key=("op", "op_type"),
)
HOST_EVENTS: Final = T(
    "host_events",
    "one long event that says what the host did while a GPU ran no kernel, or one outermost call of the framework",
    (
        C("thread", "int", "host thread", nullable=False),
        C("start_ns", "int", "start, from the start of the capture", nullable=False),
        C("duration_ns", "int", "length", nullable=False),
        C("name", "str", "name as recorded", nullable=False),
        C("work", "str", "what the host does in it; call: an outermost call of the framework", False, EVENT_WORK),
    ),
    capture=True,
)
RANGES: Final = T(
    "ranges",
    "one NVTX range or trace annotation of the host",
    (
        C("domain", "str", "NVTX domain"),
        C("name", "str", "text; of an op or layer its path, or the part of it below the outer range", False),
        C("thread", "int", "host thread; NA where the source does not say"),
        C("start_ns", "int", "start", nullable=False),
        C("duration_ns", "int", "length", nullable=False),
        C(
            "kind",
            "str",
            "what it marks; NA where the source cannot tell, and nothing follows from it",
            True,
            RANGE_KINDS,
        ),
        C("step", "int", "number of the step that it marks, where its name says that"),
        C("op_type", "str", "type of the op that it marks; NA: the last part of its name"),
        C("dtype", "str", "dtype of that op's inputs"),
        C("input_shapes", "str", "JSON list of that op's input shapes"),
        _TORCH,
        _CALLED_FROM,
        C("sequence", "int", "number that a backward op shares with its forward op (PyTorch's autograd)"),
        C("nests", "bool", "whether it was pushed and popped on one thread; false: started and ended, on any; NA: yes"),
        C("end_thread", "int", "host thread on which it ended, where that is another one"),
    ),
    capture=True,
)
THREADS: Final = T(
    "threads",
    "one host thread that launched something or has a range",
    (
        C("thread", "int", "its number, as in `launches` and `ranges`", nullable=False),
        C("process", "int", "process that it is of, numbered through", nullable=False),
    ),
    key=("thread",),
    capture=True,
)
STEP_MARKS: Final = T(
    "step_marks",
    "one step as the profile itself marks it (trace annotation, NVTX range, key node), or `steps` if none did",
    (
        C("iteration", "int", "number of the step", nullable=False),
        C("name", "str", "name of the marker"),
        C("start_ns", "int", "start on the host", nullable=False),
        C("end_ns", "int", "end on the host", nullable=False),
    ),
    key=("iteration",),
    capture=True,
)
COLLECTIVES: Final = T(
    "collectives",
    "one call in which the processes of a job wait for one another, as one of them made it: an all-reduce, a barrier",
    (
        C("name", "str", "name of the call", nullable=False),
        C("start_ns", "int", "when this process came to it", nullable=False),
        C("duration_ns", "int", "length", nullable=False),
    ),
    capture=True,
)
MESSAGES: Final = T(
    "messages",
    "one kind of collective of NCCL, by what PyTorch's profiler says of its kernels, over the whole capture of a rank",
    (
        C("collective", "str", "what was called (allreduce); by the kernel's name where nothing else tells", False),
        C("group", "str", "number of the process group, and its description"),
        C("group_size", "int", "ranks in it"),
        C("dtype", "str", "type of an element, as PyTorch names it (Float, BFloat16)"),
        C("sent_bytes", "int", "size of what a rank brings"),
        C("received_bytes", "int", "size of what it gets"),
        C("launches", "int", "kernels", nullable=False),
        C("sum_ns", "int", "summed time of them", nullable=False),
        C("exposed_ns", "int", "the part of it in which no kernel other than NCCL's ran on its GPU", nullable=False),
    ),
)
GRAPH_OPS: Final = T(
    "graph_ops",
    "one GEMM-like op of the graph, as the probe or the HLO module recorded it",
    (
        C("function", "str", "traced function or HLO module"),
        C("op", "str", "name in the traced graph", nullable=False),
        C("op_type", "str", "type in the traced graph (Conv2D) or HLO opcode (dot)", nullable=False),
        C("executed_op", "str", "name under which it runs and appears in a profile"),
        C("executed_type", "str", "type under which it runs (_FusedConv2D)"),
        C("executes", "str", "whether the optimised graph still holds it", False, USES_TC),
        C(
            "executes_basis",
            "str",
            "what says so: TensorFlow's optimised graph, what the outputs need, XLA's optimised module, the profile; "
            "length 1: nothing is summed, so XLA multiplies element by element",
            values=EXECUTES_BASES,
        ),
        C("pass", "str", "forward, gradient of the input, gradient of the weight, other", values=PASSES),
        C("layer", "str", "path of the Keras layer"),
        C("layer_class", "str", "class of the layer"),
        C("input_shapes", "str", "JSON list of input shapes, null for an unknown dimension"),
        C("input_dtypes", "str", "JSON list of dtypes"),
        C("output_shape", "str", "JSON list"),
        C("output_dtype", "str", "dtype of the first output"),
        C("attributes", "str", "JSON object: transpose_a, strides, padding, data_format, equation, HLO dimensions"),
        C("calls_per_step", "float", "executions in one step where known; 0 of a part of training that no step calls"),
        C("source", "str", "file:line where the layer was constructed"),
        C("called_from", "str", "file:line where it was called"),
        C("part", "int", "part of training that it belongs to, as `phases.parts` numbers them"),
        C("calls_in_phases", "str", "JSON list: calls of its function in a step of each phase, null where unknown"),
        C(
            "called_in",
            "str",
            "JSON list: step of each call under the profiler that ran it in these shapes; NA where all were alike",
        ),
        C("repeats", "float", "executions in one call of that function"),
        C("at_least", "bool", "whether these counts are lower bounds: the data decides how long a loop runs"),
    ),
    adds=True,
)
SCOPES: Final = T(
    "scopes",
    "one name scope of TensorFlow's ops, and the Keras layer whose call made them",
    (
        C("scope", "str", "of the ops, without the calls around it; what stands deeper belongs to it", nullable=False),
        C("layer", "str", "path of the layer", nullable=False),
    ),
    key=("scope",),
)
STEPS: Final = T(
    "steps",
    "one training step as the workload saw it",
    (
        C("step", "int", "number of the step, from 0", nullable=False),
        C("start_ns", "int", "start, from the start of the workload", nullable=False),
        C("duration_ns", "int", "start to start of the next step; NA for the last"),
        C("kind", "str", "where the step stands", False, STEP_KINDS),
        C("live_step", "int", "its number while the workload ran, where that was another"),
    ),
    key=("step",),
)
METRICS: Final = T(
    "metrics",
    "one figure that the workload logged",
    (
        C("step", "int", "step during which it was logged; NA before the first"),
        C("name", "str", "name in the log line (G Loss, throughput)", nullable=False),
        C(
            "value",
            "float",
            "the figure as logged; nan, inf and -inf are values (in JSON text)",
            nullable=False,
            nan=True,
        ),
        C("unit", "str", "unit as logged (img/s, s)"),
    ),
)
GRADIENTS: Final = T(
    "gradients",
    "one weight, and what float16 makes of its gradient; over the updates of the probe's window, else of the run",
    (
        C("layer", "str", "path of the layer that owns it, or the scope in its name"),
        C("weight", "str", "its own name", nullable=False),
        C("updates", "int", "updates that were counted", nullable=False),
        C("size", "int", "values of these gradients; of a sparse one those of the rows that it has", nullable=False),
        C("values", "int", "values that were looked at", nullable=False),
        C("scale", "float", "by which the loss was scaled, the mean over updates; 1: not by the optimizer", False),
        C("zero_pct", "float", "share of them that is 0 in float16 at that scale, 0-100", nullable=False),
        C("subnormal_pct", "float", "share that is subnormal there, which costs digits", nullable=False),
        C("infinite_pct", "float", "share that is infinite there, or NaN", nullable=False),
        C("zeros", "int", "values that are 0 anyway; of a float16 run also those that vanished", nullable=False),
        C("not_finite", "int", "values that are infinite or NaN anyway", nullable=False),
        C("gone", "int", "others that are 0 in float16 at that scale: at most 2**-25", nullable=False),
        C("subnormal", "int", "those below 2**-14 that are not", nullable=False),
        C("infinite", "int", "those of 65,520 and more, which are infinite", nullable=False),
        C("larger", "str", "JSON object: by exponent of 2 the finite values beyond it without a scale", nullable=False),
    ),
)
KERNEL_COUNTERS: Final = T(
    "kernel_counters",
    "one hardware counter of one kernel configuration",
    (
        C("device", "int", "GPU ordinal; NA where the source does not say"),
        C("kernel", "str", "kernel name, as in `launches`", nullable=False),
        C("grid", "str", "blocks per grid, x,y,z"),
        C("block", "str", "threads per block, x,y,z"),
        C("metric", "str", "name of the counter, as Nsight Compute writes it", nullable=False),
        C("value", "float", "mean over the launches measured"),
        C("unit", "str", "unit of the value (inst, cycle, %)"),
        C("launches", "int", "launches measured"),
    ),
    key=("device", "kernel", "grid", "block", "metric"),
)
REPORTED: Final = T(
    "reported",
    "one figure of the profiler's own, shown beside ours and never overwritten by it",
    (
        C("metric", "str", "the profiler's name of it", nullable=False),
        C("value", "float", "the figure, where it is a number"),
        C("text", "str", "the figure, where it is not"),
        C("unit", "str", "ns, percent, count"),
        C("source", "str", "file and section", nullable=False),
    ),
    key=("source", "metric"),
)

# --- what follows from it ----------------------------------------------------------------------------

KERNELS: Final = T(
    "kernels",
    "kernel name x op x device",
    (
        C("device", "int", "GPU ordinal; NA where the source sums over GPUs"),
        C("kernel", "str", "kernel name", nullable=False),
        C("op", "str", "op that launched it"),
        C("op_type", "str", "type of that op"),
        C("calls", "int", "launches"),
        C("sum_ns", "int", "summed time"),
        C("min_ns", "int", "shortest launch"),
        C("max_ns", "int", "longest launch"),
        C("uses_tc", "str", "whether it uses Tensor Cores", False, USES_TC),
        C("basis", "str", "what the verdict rests on; NA where it is unknown", values=BASES),
        C("evidence", "str", "the token, counter or rate that decided", nullable=False),
        C("precision", "str", "fp16, bf16, tf32, fp8, fp4, int8, fp64, fp32 where the name or op tells"),
        C("registers", "int", "registers per thread of the costliest configuration"),
        C("static_shared_bytes", "int", "static shared memory of the costliest configuration"),
        C("dynamic_shared_bytes", "int", "dynamic shared memory of the costliest configuration"),
        C("block", "str", "threads per block of the costliest configuration"),
        C("grid", "str", "blocks per grid of the costliest configuration"),
        C("occupancy_pct", "float", "theoretical occupancy of the costliest configuration, 0-100"),
        C("memory_pct", "float", "throughput of the GPU's memory over its peak, by hardware counters, 0-100"),
        C(
            "waves",
            "float",
            "grid of that configuration over the blocks that run at once; NA: tile unknown, blocks persist",
        ),
        C("blocks_per_sm", "int", "blocks of it that an SM runs at once, by registers, shared memory and threads"),
        C(
            "tail_ns",
            "float",
            "of sum_ns at most what the empty part of the last wave takes, over all its configurations; NA where one's "
            "waves are unknown",
        ),
        C(
            "outputs_at_most",
            "int",
            "elements of the result at most: blocks of it x tile; fewer where tiles are partly "
            "empty, or several blocks share one",
        ),
        C("cause", "str", "why its time is spent as it is: every kernel has one cause", values=CAUSES),
        C("kind", "str", "what it does, by its name", values=KERNEL_KINDS),
        C("fused_ops", "str", "ops in a compiled fusion, as its name lists them"),
        C("pass", "str", "pass of a convolution, by its name", values=PASSES),
        C("accumulates_in", "str", "what a product is summed in: fp16, fp32, fp64, int32, by its name"),
        C("tile", "str", "rows x columns of the result that one block computes (128x256), by its name"),
        C("tile_k", "int", "elements of the dimension in between that it holds at a time, by its name"),
        C("stages", "int", "how many of those it holds at once, by its name"),
        C("split_k", "bool", "whether several blocks share that dimension; NA where the name does not say so"),
        C("layout", "str", "of a product's operands, as the library writes it: nn, nt, tn, tt"),
        C(
            "alignment",
            "int",
            "elements of which contiguous dimensions must be a multiple, by its name; 1 for any kernel on CUDA cores "
            "that names one",
        ),
        C("library", "str", "whose kernel it is, by its name", values=KERNEL_LIBRARIES),
        C("generation", "str", "oldest GPUs that it was built for, by its name", values=GENERATIONS),
    ),
    key=("device", "kernel", "op", "op_type"),
)
OPS: Final = T(
    "ops",
    "one op of the profile or, without one, of the graph",
    (
        C("op", "str", "path of the op", nullable=False),
        C("op_type", "str", "type of the op"),
        C("layer", "str", "Keras layer it belongs to"),
        C("pass", "str", "forward, dgrad, wgrad, other", values=PASSES),
        C("calls", "int", "times it ran, where the source counts that"),
        C("launches", "int", "kernels it launched"),
        C("tc_capable", "str", "whether its type has a Tensor Core kernel", False, USES_TC),
        C("tc_blocker", "str", "what keeps a capable op off the Tensor Cores; none where it uses them"),
        C("sum_ns", "int", "summed time of its kernels"),
        C("union_ns", "int", "time during which at least one of its kernels ran"),
        C("tc_ns", "int", "summed time of its Tensor Core kernels"),
        C("unknown_ns", "int", "summed time of its kernels of unknown class"),
        C("host_ns", "int", "summed time on the host"),
        C("dtype", "str", "dtype of its inputs"),
        C("shapes", "str", "input shapes -> output shape"),
        C("flops", "int", "floating-point operations of one execution, from the shapes"),
        C("source", "str", "file:line where its layer was constructed"),
        C(
            "called_from",
            "str",
            "file:line where it was called; of PyTorch's ops where its caller begins",
        ),
        C("basis", "str", "what its shapes and layer rest on", values=BASES),
        *_BLOCKER,
        _CAUSE,
        *_RATE,
        C("flop_per_byte", "float", "FLOPs over the bytes of its operands and result, each moved once: at most"),
        C(
            "cause_dimension",
            "str",
            "dimension that the cause speaks of: channels, filters, groups; m, n, k of a product",
        ),
        C("cause_size", "int", "its size"),
        C("cause_kernel", "str", "short name of the costliest kernel of that cause"),
        C("tile", "str", "tile that the cost model takes for it (128x256), where the cause rests on that"),
        C("waves", "float", "rounds of these tiles over all SMs"),
        C("predicted_ns", "float", "predicted time of its counted executions, where the cause rests on that"),
        C("split_ns", "int", "its part of the window: while n kernels ran on the GPU, each has an n-th of that time"),
        C("around_ns", "int", "time of layout changes and casts beside a capable op: no part of what its cause costs"),
    ),
    key=("op", "op_type"),
)
RANGE_KERNELS: Final = T(
    "range_kernels",
    "one NVTX range by domain and name: the counted kernels that were launched in it",
    (
        C("domain", "str", "NVTX domain; NA for the default one"),
        C("name", "str", "its name; NA for launches that are in no range"),
        C("bucket", "str", "range, or why these launches are in none", False, RANGE_BUCKETS),
        C("kind", "str", "what it marks, where the source tells", True, RANGE_KINDS),
        C("calls", "int", "times it ran and a counted kernel was launched in it"),
        C("launches", "int", "kernels of which it is the innermost range", nullable=False),
        C("sum_ns", "int", "their summed time: that of all rows is all kernel time", nullable=False),
        C("union_ns", "int", "time during which at least one of them ran, summed over GPUs", nullable=False),
        C("tc_ns", "int", "summed time of those that use Tensor Cores", nullable=False),
        C("unknown_ns", "int", "summed time of those of unknown class", nullable=False),
        C("share_pct", "float", "sum_ns over all kernel time, 0-100"),
        C("inclusive_launches", "int", "kernels launched in it or in a range within it"),
        C("inclusive_sum_ns", "int", "their summed time; rows overlap"),
        C("inclusive_union_ns", "int", "time during which at least one of them ran, summed over GPUs"),
    ),
    key=("domain", "name", "bucket"),
)
RANGE_TIMES: Final = T(
    "range_times",
    "the NVTX ranges of one domain and name in the capture, whether or not kernels were launched in them: host time",
    (
        C("domain", "str", "NVTX domain; NA for the default one"),
        C("name", "str", "their name", nullable=False),
        C("calls", "int", "how many", nullable=False),
        C("sum_ns", "int", "how long they last, summed; ranges within one another overlap", nullable=False),
        C("mean_ns", "float", "mean length", nullable=False),
        C("min_ns", "int", "shortest", nullable=False),
        C("max_ns", "int", "longest", nullable=False),
    ),
    key=("domain", "name"),
)
LAYERS: Final = T(
    "layers",
    "one layer of the model",
    (
        C("layer", "str", "path of the layer; (no layer) for ops outside any", nullable=False),
        C("layer_class", "str", "class of the layer"),
        C("launches", "int", "kernels launched"),
        C("sum_ns", "int", "summed kernel time"),
        C("share_pct", "float", "share of all kernel time, 0-100"),
        C("forward_ns", "int", "summed kernel time of the forward pass"),
        C("dgrad_ns", "int", "summed kernel time of input gradients"),
        C("wgrad_ns", "int", "summed kernel time of weight gradients"),
        C("tc_ns", "int", "summed time of Tensor Core kernels"),
        C("unknown_ns", "int", "summed time of kernels of unknown class"),
        C("capable_ns", "int", "summed kernel time of its capable ops"),
        C("tc_capable_time_pct", "float", "Tensor Core time within capable ops / their kernel time, 0-100"),
        C("host_ns", "int", "summed time on the host"),
        C("capable_unknown_ns", "int", "summed time of the kernels of unknown class of its capable ops"),
        C(
            "gemms",
            "int",
            "its rows of `gemms` that are known to execute: a lower bound where that is not known of some",
        ),
        C(
            "flops",
            "int",
            "floating-point operations of these in a step; without a known step, in one execution of the graph",
        ),
        C("source", "str", "file:line where it was constructed"),
        C(
            "at_least",
            "bool",
            "whether gemms or flops are lower bounds: of some it is unknown whether or how often they run",
        ),
        _CAUSE,
        *_RATE,
        C("cause_ns", "int", "summed time of its kernels that have that cause"),
        C("split_ns", "int", "its part of the window, as of its ops"),
        C("around_ns", "int", "summed time of layout changes and casts around its capable ops"),
    ),
    key=("layer",),
)
PHASES: Final = T(
    "phases",
    "one phase of the run: successive steps that call the same parts of training",
    (
        C("phase", "int", "number of the phase, from 0; sentences count from 1", nullable=False),
        C("first_step", "int", "first step", nullable=False),
        C("last_step", "int", "last step that began in it", nullable=False),
        C("steps", "int", "steps that began in it", nullable=False),
        C(
            "parts",
            "str",
            "JSON list of the parts of a step: key, name, calls_per_step; recorded is false where no graph has it",
            nullable=False,
        ),
        C("basis", "str", "what tells its steps apart, as the probe says"),
        C("in_window", "bool", "whether the counted steps, and so all other figures, are of it"),
        C("profiled", "bool", "whether some of its steps were profiled: of other phases no kernel is known"),
        C("step_ns", "int", "median length of its steps, start to start; warm-up and epoch ends apart"),
        C("step_low_ns", "int", "percentile 10 of the same steps"),
        C("step_high_ns", "int", "percentile 90"),
        C("timed_steps", "int", "steps that this is the median of"),
        C("timed", "str", "where these steps stand", values=STEP_KINDS),
        C("flops", "int", "floating-point operations of the matrix multiplications of a step; NA where unknown"),
        C("flops_gap", "str", "why that is not known", values=FLOPS_GAPS),
        C("at_least", "bool", "whether that is a lower bound: shapes, loops or what executes are not all known"),
        C("products", "int", "ops of a step that multiply matrices, those apart that are known not to execute"),
        C("iter_start", "int", "step from which `tcprobe profile --iter-start` profiles it; NA where that was done"),
    ),
    key=("phase",),
)
ITERATIONS: Final = T(
    "iterations",
    "one step of the profile",
    (
        C("iteration", "int", "number of the step", nullable=False),
        C("in_window", "bool", "whether the figures count it", nullable=False),
        C("steps", "int", "training steps that it holds: several where one call makes them", nullable=False),
        C("start_ns", "int", "start on the host"),
        C("duration_ns", "int", "start to start; NA for the last"),
        C(
            "span_ns",
            "int",
            "start to the start of the next one recorded; of the last to its mark's or last kernel's end",
        ),
        C("busy_ns", "int", "time within that during which a kernel ran, of whichever step, summed over devices"),
        C("launches", "int", "kernels launched by it"),
        C("sum_ns", "int", "summed kernel time"),
        C("union_ns", "int", "time during which at least one of its kernels ran, summed over devices"),
        C("tc_ns", "int", "summed time of Tensor Core kernels"),
        C("unknown_ns", "int", "summed time of kernels of unknown class"),
        C(
            "off_ns",
            "int",
            "summed time of kernels that could use Tensor Cores and do not; NA where one was not judged",
        ),
        C("memory_ns", "int", "summed time of copies and sets"),
        C("copy_ns", "int", "time during which copies or sets of it ran and none of its kernels, summed over devices"),
        C("tc_kernel_time_pct", "float", "Tensor Core kernels / all kernels by time, lower bound, 0-100"),
        C("live_iteration", "int", "the number by which it was marked while the workload ran, where that was another"),
    ),
    key=("iteration",),
)
DEVICES: Final = T(
    "devices",
    "one GPU that the profile knows of",
    (
        C("device", "int", "GPU ordinal", nullable=False),
        C("name", "str", "name of the GPU"),
        C("name_basis", "str", "reported by the file, or inferred from its figures", values=("reported", "inferred")),
        C("vendor", "str", "Nvidia, AMD"),
        C("compute_capability", "str", "major.minor"),
        C("tensor_cores", "str", "whether the GPU has Tensor Cores", False, USES_TC),
        C("sm_count", "int", "streaming multiprocessors"),
        C("clock_khz", "int", "highest clock"),
        C("memory_bytes", "int", "device memory"),
        C("bandwidth_bytes_per_s", "int", "peak memory bandwidth"),
        C("state", "str", "active where it ran kernels", False, ("active", "idle")),
        C("launches", "int", "kernels launched by the steps of the window"),
        C("sum_ns", "int", "summed time of the kernels that the steps of the window launched, whenever they ran"),
        C("union_ns", "int", "time within the window during which a kernel ran, whichever step launched it"),
        C("window_ns", "int", "length of the window"),
        C("gpu_busy_pct", "float", "union_ns / window_ns, 0-100"),
        C("tc_ns", "int", "summed time of Tensor Core kernels"),
        C("unknown_ns", "int", "summed time of kernels of unknown class"),
        C("memory_ns", "int", "summed time of copies and sets"),
        C("tc_kernel_time_pct", "float", "Tensor Core kernels / all kernels by time, lower bound, 0-100"),
        C("peak_memory_bytes", "int", "peak device memory of the workload, where recorded"),
        C("state_basis", "str", "which samples of nvidia-smi the next columns are of", values=("window", "run")),
        C("state_samples", "int", "how many there are"),
        C("sm_clock_mhz", "float", "median clock of the multiprocessors"),
        C("memory_clock_mhz", "float", "median clock of the memory"),
        C("power_w", "float", "median power draw"),
        C("temperature_c", "float", "highest temperature, in degrees Celsius"),
        C(
            "held_down_by",
            "str",
            "what held the clocks down in some samples, most often first; empty where nothing did",
        ),
        C("held_down_pct", "float", "share of the samples in which the first of these did, 0-100"),
        C("other_processes", "int", "processes that computed on it before or after the workload, whichever are more"),
        C("uncorrected_errors", "int", "ECC errors of this run that could not be corrected"),
    ),
    key=("device",),
)
RANKS: Final = T(
    "ranks",
    "one rank (process) of a job; times of its counted window are means over its GPUs, sums are over all of them",
    (
        C("rank", "int", "its number in the job; NA where a file that cannot be read does not tell"),
        C("state", "str", "whether its figures are there, and if not, why", False, ("read", "missing", "unreadable")),
        C("host", "str", "machine that ran it"),
        C("source", "str", "its file or run folder"),
        C("why", "str", "why that cannot be read"),
        C("gpus", "int", "GPUs that ran kernels of it"),
        C("first_device", "int", "number of the first of its GPUs in `devices`"),
        C("step_ns", "float", "length of a step; of the capture, where no step is known"),
        C("step_length", "str", "what that length rests on", values=STEP_LENGTHS),
        C("window_ns", "float", "length of the window"),
        C("gpu_busy_pct", "float", "time within the window during which a kernel ran, 0-100"),
        C("kernel_ns", "float", "summed kernel time"),
        C("tc_ns", "float", "summed time of Tensor Core kernels"),
        C("unknown_ns", "float", "summed time of kernels of unknown class"),
        C(
            "exposed_ns",
            "float",
            "time of the window in which no kernel but communication ran, and the host waited for other ranks",
        ),
        C("exposed_op", "str", "call in which most of that waiting was"),
        C("between_two_ns", "float", "of it, in calls that are none of all ranks: sending to one, receiving from one"),
        C("wait", "str", "what the host did in most of the other time without a kernel", values=tuple(HOST_WORK)),
        C("wait_ns", "float", "that time"),
        C("collectives", "int", "calls in which ranks wait for one another, as far as they are compared"),
        C("collective_ns", "float", "time in these"),
        C("waited_ns", "float", "of that, before the last rank came; NA where clocks cannot be compared"),
        C("last", "int", "to how many of these it came last"),
        C("straggler", "bool", "whether it holds the others up; NA where nothing tells"),
        C("held_by", "str", "what takes it longer than the others, of which it keeps them waiting", values=HELD_BY),
        C("held_ns", "float", "how much longer than the median of the others"),
        C("clock_offset_ns", "float", "what its clock is behind that of the first rank"),
        C("clock_residual_ns", "float", "median distance of the same moments on both, that taken into account"),
    ),
    key=("rank",),
)
GAPS: Final = T(
    "gaps",
    "one long stretch of the window in which no kernel ran on a GPU (copies do not count), longest first",
    (
        C("device", "int", "GPU ordinal", nullable=False),
        C("start_ns", "int", "start, from the start of the capture", nullable=False),
        C("duration_ns", "int", "length", nullable=False),
        C("iteration", "int", "step that launched the kernel after it, else the one before it"),
        C("share_pct", "float", "share of the window's length, 0-100", nullable=False),
        C("after", "str", "kernel or copy (MemcpyH2D 4096 B) that ends before the GPU waits; NA: the window begins"),
        C("before", "str", "kernel or copy that starts when the wait is over; NA: the window ends"),
        C("host_work", "str", "what the host did in most of it", False, tuple(HOST_WORK)),
        C("host_op", "str", "event, the innermost, in most of that: the evidence; NA where nothing tells"),
        C("host_ns", "int", "time of it for which that event tells"),
    ),
)
WAITS: Final = T(
    "waits",
    "one thing that the host did while a GPU ran no kernel: those of a GPU add up to its window less `union_ns`",
    (
        C("device", "int", "GPU ordinal; NA where these are sums over the ranks of a job"),
        C("host_work", "str", "what the host did, moment by moment", False, tuple(HOST_WORK)),
        C("short", "bool", "whether in stretches below 0.1 ms, the pace of launches", nullable=False),
        C("host_op", "str", "innermost event that tells so; NA where none does, and for what is below 1 % of the wait"),
        C("range", "str", "innermost range of the launching thread around it; NA likewise"),
        C("stretches", "int", "stretches without a kernel that hold some of it", nullable=False),
        C("idle_ns", "int", "time of the window", nullable=False),
        C("share_pct", "float", "that over all rows of the GPU, 0-100", nullable=False),
        C("step_ns", "float", "that of one step; NA where the window's steps are not known"),
    ),
    key=("device", "host_work", "short", "host_op", "range"),
)
COPIES: Final = T(
    "copies",
    "the copies, or sets, of one kind that begin within the window on one GPU: time of the device, not of the calls",
    (
        C("device", "int", "GPU ordinal; NA where these are sums over the ranks of a job"),
        C("kind", "str", "MemcpyH2D, MemcpyD2H, MemcpyD2D, MemcpyP2P, Memset", nullable=False),
        C("calls", "int", "how many", nullable=False),
        C("size_bytes", "int", "what they move, summed; NA where the size of one is not known"),
        C("sum_ns", "int", "their time, summed", nullable=False),
        C("bytes_per_s", "float", "size_bytes / sum_ns; NA likewise"),
        C("idle_ns", "int", "time in which one of them ran and no kernel: the most that hiding them can save"),
        C("step_ns", "float", "that of one step; NA where the window's steps are not known"),
    ),
    key=("device", "kind"),
)
GEMMS: Final = T(
    "gemms",
    "one matrix multiplication that an op performs",
    (
        C("op", "str", "op", nullable=False),
        C("op_type", "str", "type of the op"),
        C("layer", "str", "layer"),
        C("layer_class", "str", "class of the layer"),
        C("pass", "str", "forward, dgrad, wgrad, other", values=PASSES),
        C("m", "int", "rows of the output, row-major C[M,N] = A[M,K] B[K,N]; NA where a dimension is unknown"),
        C("n", "int", "columns of the output"),
        C("k", "int", "contracted dimension"),
        C("batch", "int", "number of such multiplications"),
        C("dtype", "str", "dtype of the inputs"),
        C(
            "flops",
            "int",
            "2 * batch * m * n * k; of a convolution in any pass 2 * images * output positions * taps * channels of a "
            "group * filters (of a strided input gradient the taps of its grid)",
        ),
        C(
            "calls_per_step",
            "float",
            "executions in a step, 1 in a source without a graph; NA where it is unknown whether or how often it runs",
        ),
        C("executes", "str", "whether the optimised graph holds the op", False, USES_TC),
        C("executes_basis", "str", "what says so, as in `graph_ops`", values=EXECUTES_BASES),
        C("tc_blocker", "str", "what would keep it off the target GPU's Tensor Cores; none where nothing does"),
        C("kernel_ns", "int", "summed time of its kernels where measured"),
        C("source", "str", "file:line where the layer was constructed"),
        C("called_from", "str", "file:line where it was called"),
        C("basis", "str", "what the shape rests on", values=BASES),
        *_BLOCKER,
        C("at_least", "bool", "whether calls_per_step is a lower bound: the data decides how long a loop runs"),
        C("kernel", "str", "the costliest kernel of its op, where measured"),
        _CAUSE,
        *_RATE,
    ),
)
CAUSES_OF_TIME: Final = T(
    "causes",
    "one cause on one GPU: what of the counted steps' time it takes",
    (
        C("device", "int", "GPU ordinal; NA where the source sums over GPUs"),
        C("group", "str", "part of the step's bar that it belongs to", False, tuple(CAUSE_GROUPS)),
        C("cause", "str", "why the time is spent so", False, CAUSES),
        C("launches", "int", "kernels with this cause, of the counted steps"),
        C("ops", "int", "ops whose kernels these are"),
        C("sum_ns", "int", "summed time of these kernels, copies or sets; overlapping ones count twice"),
        C("split_ns", "int", "part of the window: those of all causes of a GPU add up to its length"),
        C("share_pct", "float", "split_ns over the window, else sum_ns over all kernel time, 0-100"),
        C("step_ns", "float", "split_ns, else sum_ns, of one step"),
        C("kernel", "str", "the costliest of these kernels in that op; of all of them where none has an op"),
        C("op", "str", "the costliest of these ops"),
        C("op_type", "str", "type of that op"),
        C("layer", "str", "its layer"),
        C("pass", "str", "its pass", values=PASSES),
        C("source", "str", "file:line where that layer was constructed; without one, where the op was called"),
    ),
    key=("device", "cause"),
)
STEP_RANGES: Final = T(
    "step_ranges",
    "ranges of one name, or of names that differ in a number, that may be steps; of the thread that has most of them",
    (
        C("pattern", "str", "regular expression of their names, for --step-range", nullable=False),
        C("domain", "str", "NVTX domain; NA for the default one"),
        C("thread", "int", "host thread; NA where the source does not say"),
        C("calls", "int", "ranges on it, without those that begin in another of them", nullable=False),
        C("numbers", "str", "whether a number in their names rises from each to the next", False, RANGE_NUMBERS),
        C("median_ns", "float", "median length on the host", nullable=False),
        C("kernels", "float", "median number of kernels launched while one lasts", nullable=False),
        C("share_pct", "float", "kernels launched in them over those of their process, 0-100", nullable=False),
        C("why_not", "str", "why they do not count as steps; NA of those that do", values=tuple(NO_STEPS)),
    ),
    key=("domain", "pattern"),
)
UNITS: Final = T(
    "units",
    "one unit of kernels that repeats in the launches of a GPU and process: a step, a layer, a token, a micro-batch",
    (
        C("device", "int", "GPU ordinal", nullable=False),
        C("process", "int", "process that launched it, as in `threads`; NA where unknown"),
        C("kernels", "int", "kernels in a unit", nullable=False),
        C("repeats", "int", "units that hold these kernels, irregular ones between them apart", nullable=False),
        C("start_ns", "int", "start of the first launch of the first unit", nullable=False),
        C("end_ns", "int", "end of the last launch of the last unit", nullable=False),
        C("unit_ns", "float", "median time from the start of a unit to that of the next"),
        C("kernel_ns", "float", "mean kernel time of a unit", nullable=False),
        C("share_pct", "float", "launches in units over those of this GPU and process, 0-100", nullable=False),
        C("is_step", "str", "whether a unit is a step; unknown where nothing says so", False, USES_TC),
        C("basis", "str", "what says that: steps that are marked, updates by an optimizer", values=UNIT_BASES),
    ),
    key=("device", "process", "start_ns"),
)
KINDS_OF_KERNELS: Final = T(
    "kinds",
    "one kind of kernels with one cause on one GPU: what of the counted steps' time it takes",
    (C("kind", "str", "what these kernels do, by their names", False, KERNEL_KINDS), *CAUSES_OF_TIME.columns),
    key=("device", "cause", "kind"),
)
CHAINS: Final = T(
    "chains",
    "one sequence of kernels that multiply nothing and follow one another on a stream of a GPU, nothing else between",
    (
        C("device", "int", "GPU ordinal", nullable=False),
        C("kinds", "str", "JSON object: what its kernels do, and how many do so", nullable=False),
        C("kernels", "int", "kernels in one such chain, 2 or more", nullable=False),
        C("calls", "int", "times that the chain ran in the counted steps", nullable=False),
        C("launches", "int", "kernels of all of these", nullable=False),
        C("sum_ns", "int", "their summed time", nullable=False),
        C("share_pct", "float", "that over all kernel time, 0-100"),
        C("step_ns", "float", "that of one step; of the capture, where it stands for a step"),
        C("first_kernel", "str", "its first kernel", nullable=False),
        C("last_kernel", "str", "its last kernel", nullable=False),
        C("op", "str", "the costliest op of these kernels"),
        C("op_type", "str", "type of that op"),
        C("layer", "str", "its layer"),
        C("pass", "str", "its pass", values=PASSES),
        C("source", "str", "file:line where that layer was constructed; without one, where the op was called"),
        C("compiled", "bool", "whether a compiler made these kernels: it fused what it would", nullable=False),
        C(
            "moved_bytes",
            "float",
            "what its ops read and write, each by itself; NA where a shape is unknown",
        ),
        C(
            "again_bytes",
            "float",
            "all of that but what the first op reads and the last writes",
        ),
        C("achieved_tb_per_s", "float", "moved_bytes over sum_ns, in TB/s"),
        C("bandwidth_pct", "float", "that over the GPU's memory bandwidth, 0-100; NA where a cache served some of it"),
        C(
            "at_most_ns",
            "float",
            "what one kernel in place of each chain saves at most: sum_ns, where shapes and GPU are known less the "
            "time to read and write what is left past the L2 cache; NA where compiled",
        ),
    ),
)
STRETCHES: Final = T(
    "stretches",
    "one stretch of a capture without steps, in which a GPU is unlike as busy as in the one before",
    (
        C("device", "int", "GPU ordinal", nullable=False),
        C("start_ns", "int", "start of its first kernel", nullable=False),
        C("end_ns", "int", "end of its last kernel", nullable=False),
        C("launches", "int", "kernels that began in it", nullable=False),
        C("busy_pct", "float", "time during which at least one kernel ran over its length, 0-100", nullable=False),
    ),
    key=("device", "start_ns"),
)
WHAT_IFS: Final = T(
    "what_ifs",
    "one change and the step that is predicted with it; the last row is of all changes that go together",
    (
        C("change", "str", "what would change", False, CHANGES),
        C("layer", "str", "layer that would change; NA: all that compute so"),
        C("dimension", "str", "dimension that would change"),
        C("size", "int", "its size as it is"),
        C("next_size", "int", "its size then"),
        C("ops", "int", "ops whose time would change; where bound, rows of kernels", nullable=False),
        C("spent_ns", "float", "time of these in a step, at most the step", nullable=False),
        C("gain_low_ns", "float", "least that a step gets shorter, 0 or more", nullable=False),
        C("gain_ns", "float", "likely; NA where bound"),
        C("gain_high_ns", "float", "most, at most spent_ns", nullable=False),
        C("bound", "bool", "whether the most alone is told: of kernels without shapes, by tile rates", nullable=False),
        C("may_cost", "bool", "whether the change may also make the step longer", nullable=False),
        C("step_ns", "float", "length of a step as it is; NA where none is known"),
        C("new_step_low_ns", "float", "shortest that it may become"),
        C("new_step_ns", "float", "likely"),
        C("new_step_high_ns", "float", "longest"),
        C("throughput", "float", "throughput as it is, as the workload logs it"),
        C("new_throughput_low", "float", "least that it may become"),
        C("new_throughput", "float", "likely"),
        C("new_throughput_high", "float", "most"),
        C("throughput_unit", "str", "unit as logged (img/s)"),
        C("basis", "str", "what the ratio of times rests on", False, WHAT_IF_BASES),
        C("evidence", "str", "the weakest that its predictions rest on", values=("timed", "between", "judged")),
        C("predicted_for", "str", "id of the GPU that it is predicted for"),
        C("constants_gpu", "str", "id of the GPU whose constants these predictions rest on"),
        C("constants_stack", "str", "software that timed that GPU; NA where unknown"),
        C("constants_borrowed", "str", "constants that are not its own, and whose"),
        C(
            "unpredicted",
            "int",
            "ops that the change concerns and of which nothing is predicted: they stay as they are",
        ),
        C("source", "str", "file:line of the layer"),
        C("holds", "str", "of the last row: JSON list of its changes, each with its layer, null: all that compute so"),
    ),
)
BAD_SIZES: Final = T(
    "bad_sizes",
    "one layer dimension that is no multiple of 8 elements or of 16 bytes",
    (
        C("layer", "str", "layer", nullable=False),
        C("layer_class", "str", "class of the layer"),
        C("dimension", "str", "units, inputs, filters, channels, features", nullable=False),
        C("size", "int", "the size as it is", nullable=False),
        C("next_size", "int", "an aligned size: the next, or one just below that fills whole tiles", nullable=False),
        C("multiple", "int", "the multiple that the dtype asks for (16 bytes' worth, at least 8)", nullable=False),
        C("passes", "str", "passes whose contiguous dimension it is"),
        C("dtype", "str", "dtype of the op"),
        C("kernel_ns", "int", "summed time of the layer's kernels that it touches, where measured"),
        C("share_pct", "float", "that over all kernel time, 0-100"),
        C("flops_pct", "float", "share of the step's GEMM FLOPs that it touches, 0-100"),
        C("saving_low_ns", "int", "least that the next size saves a step; below 0 where it may cost"),
        C("saving_ns", "int", "likely, in the ops that have this dimension (the next layer's inputs are another row)"),
        C("saving_high_ns", "int", "most"),
        C("saving_pct", "float", "the likely over the step's predicted products (all kernel time if measured), to 100"),
        C("saving_basis", "str", "predicted outright, or as a share of measured time; NA if unknown", True, SAVINGS),
        C("advice", "str", "what to do, or why nothing"),
        C("source", "str", "file:line where the layer was constructed; else, where it was called"),
        C("basis", "str", "what it rests on", False, BASES),
        C("advice_kind", "str", "what to do, as a kind", values=SIZE_ADVICE),
        C("advice_gpu", "str", "name of the GPU that the rates are of, or that has no Tensor Cores"),
        C("rate_low_pct", "int", "lowest rate of its products over that of aligned ones, whole percent, 0-100"),
        C("rate_high_pct", "int", "highest"),
        C("rate_basis", "str", "what the rates rest on; NA where there are none", values=RATE_BASES),
        C("limit", "str", "what bounds its products, where it costs next to nothing", values=LIMITS),
        C("xla_pads", "bool", "whether XLA pads its products, where their rates are predicted"),
        C("image_channels", "int", "channels of the images that the units may be reshaped to"),
        C("padding_may_lose", "bool", "whether zeros at run time, which are copied, may lose; NA where unknown"),
        C("predicted_for", "str", "id of the GPU that saving and rates are predicted for; NA where nothing is"),
        C("constants_gpu", "str", "id of the GPU whose constants these predictions rest on"),
        C("constants_stack", "str", "software that timed that GPU; NA where unknown"),
        C("constants_borrowed", "str", "constants that are not its own, and whose: gpu, dtype, stack, convolution..."),
        C("flops_at_most", "bool", "whether flops_pct is an upper bound: what other products do is not all known"),
    ),
)
SUMMARY: Final = T(
    "summary",
    "one headline figure",
    (
        C("metric", "str", "name of the figure, with its unit as suffix", nullable=False),
        C("value", "float", "the figure; NA with a reason where it was not measured"),
        C("low", "float", "lower bound where unknown kernels make it a range"),
        C("high", "float", "upper bound"),
        C("text", "str", "the figure where it is no number"),
        C("basis", "str", "what it rests on", values=BASES),
        C("reason", "str", "why it is NA, or what limits it"),
        C(
            "reason_kind",
            "str",
            "the reason as a kind: where it holds for all figures of the Tensor Cores or of a step, and of MFU and HFU",
            values=REASONS,
        ),
    ),
)
ADVICE: Final = T(
    "advice",
    "one thing to do, most important first",
    (
        C("rank", "int", "place in the list, from 1", nullable=False),
        C("code", "str", "rule that says it (TC301); tcprobe explain CODE has more", nullable=False),
        C("name", "str", "name of the rule", nullable=False),
        C("kind", "str", "what to do, as a kind", False, REMEDIES),
        C("step_pct", "float", "share of a step that it saves: likely if predicted, else at most; to 100"),
        C("at_most_ns", "float", "what it can save of a step at most; NA where no step's length is known"),
        C("bound", "str", "what that most is; by peak rates it is no strict bound", values=BOUNDS),
        C("saving_low_ns", "float", "least that it is predicted to save a step; below 0 where it may cost"),
        C("saving_ns", "float", "likely"),
        C("saving_high_ns", "float", "most"),
        C("saving_pct", "float", "the likely as a percentage of `saving_of`"),
        C("saving_of", "str", "what `saving_pct` is a share of", values=SHARES),
        C("kernel_ns", "float", "kernel time in a step that it concerns, summed over GPUs"),
        C("share_pct", "float", "share of the run that it concerns, 0-100", nullable=False),
        C("share_of", "str", "what that is a share of", False, SHARES),
        C("step_ns", "float", "length of a step"),
        C("step_length", "str", "what that length rests on", values=STEP_LENGTHS),
        C("layer", "str", "layer that it concerns; if several, the costliest"),
        C("op", "str", "op that it concerns; if several, the costliest"),
        C("pass", "str", "pass of that op", values=PASSES),
        C("source", "str", "file:line where the layer was constructed"),
        C("beside", "str", "codes of items above it that draw on some of the same time: savings do not add up"),
        C("text", "str", "the whole advice, in words"),
    ),
    key=("rank",),
)

RECORDED: Final = (
    LAUNCHES, LAUNCH_CONFIGS, OP_DETAILS, MEMORY_OPS, HOST_OPS, HOST_EVENTS, RANGES, THREADS, STEP_MARKS,
    COLLECTIVES, MESSAGES, GRAPH_OPS, SCOPES, STEPS, METRICS, GRADIENTS, KERNEL_COUNTERS, REPORTED,
)  # fmt: skip
DERIVED: Final = (
    SUMMARY, RANKS, CAUSES_OF_TIME, KINDS_OF_KERNELS, PHASES, KERNELS, OPS, RANGE_KERNELS, RANGE_TIMES, LAYERS,
    ITERATIONS, STEP_RANGES, UNITS, DEVICES, WAITS, GAPS, COPIES, STRETCHES, CHAINS, GEMMS, BAD_SIZES, WHAT_IFS, ADVICE,
)  # fmt: skip
TABLES: Final = {spec.name: spec for spec in (*RECORDED, *DERIVED)}

FIGURES: Final[Mapping[str, str]] = {
    "tc_kernel_time_pct": "time of kernels that use Tensor Cores over the time of all kernels",
    "coverage_pct": "time of kernels whose class is known over the time of all kernels; below 90 % a range is wide",
    "tc_capable_time_pct": "of the kernel time of ops that Tensor Cores could run, the part that ran there",
    "capable_time_pct": "kernel time of ops whose type Tensor Cores could run over the time of all kernels",
    "ops_using_tc_time_pct": "GPU time of ops that the profiler says use Tensor Cores over that of all ops",
    "ops_eligible_not_using_time_pct": "GPU time of ops that could use Tensor Cores and use none over that of all ops",
    "ops_idle_ns": "time in which the GPU is idle within calls of ops",
    "ops_idle_pct": "that over itself and the GPU time of the ops",
    "gpu_busy_pct": "part of the window in which a kernel ran, the mean over the GPUs that ran any",
    "window_ns": "length of the part of the profile that counts",
    "idle_ns": "how long the GPU waits in a step: its length less the time in which a kernel ran",
    "idle_pct": "that over the length of the step",
    "kernel_time_ns": "summed time of the kernels of the window, over all GPUs",
    "tc_time_ns": "summed time of those that use Tensor Cores",
    "communication_kernel_time_pct": "time of kernels that move data between GPUs over the time of all kernels",
    "communication_kernel_time_ns": "summed time of kernels that move data between GPUs",
    "communication_exposed_ns": "the part of that during which no other kernel ran on the GPU",
    "memory_time_ns": "summed time of copies and sets",
    "kernels": "number of launches of kernels",
    "iterations_in_window": "number of steps that count",
    "step_time_ns": "median length of a step, start to start, outside the profiled window where any was timed there",
    "mean_step_time_ns": "mean length of the same steps, those with an epoch's end included",
    "short_step_ns": "median length of the shorter of two kinds of steps",
    "long_step_ns": "median length of the longer of two kinds of steps",
    "epoch_end_ns": "median length of steps with an epoch's end",
    "epoch_ends": "number of steps with an epoch's end, which the step time leaves out",
    "retrace_ns": "median length of steps in which a function was traced again",
    "retraces": "number of such steps, which the step time leaves out",
    "update_ns": "time a step of the ops that update the weights, with those of a dynamic loss scale",
    "throughput": "median of what the script logged under that name",
    "flops_per_step": "floating-point operations of a step's products on one GPU",
    "achieved_tflop_per_s": "FLOPs of the ops with shapes and kernel time over that time",
    "peak_pct": "time that those FLOPs would take at the GPU's dense peak over the time they took",
    "mfu_pct": "model FLOPs utilisation: time that a step's products would take all GPUs at their peak over the step",
    "hfu_pct": "the same with products that are computed again",
    "mfu_peak_tflop_per_s": "the dense peak of one GPU that these two are held against",
    "bad_size_count": "number of sizes of layers that a better one is known for",
    "gemm_layers": "number of layers that multiply matrices and run",
}
"""The metrics of `summary`, each in a sentence; docs/figures.md has formulas and limits. Names end in the unit.
Of each precision that occurs there is ``precision_NAME_time_pct`` too."""
