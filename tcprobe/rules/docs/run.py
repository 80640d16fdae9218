"""The documentation of the rules on runs, TC3xx."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.run import kernels, waiting
from tcprobe.rules.run.base import TINY_NS

TC301: Final = RuleDoc(
    code="TC301",
    summary="The GPU waits for the host during a part of the step.",
    explanation=(
        "While no kernel runs, nothing that makes kernels faster helps: the step gets shorter only where the waiting "
        "does. The end of all waiting saves the idle time of the step at most, and Tensor Cores save at most what "
        "their kernels take, which is little where the GPU is busy for a small part of the step.\n\n"
        "What to do follows from what the host did while no kernel ran (`--by wait` lists it): what takes most of the "
        "waiting has an item, and so has the next cause of a quarter of it or more. Each counts its own part of the "
        "waiting at most; what is below half of it is told as a part. The input pipeline: prepare the next batch while "
        "the GPU computes. Copies: keep data on the GPU, or copy ahead of time; only time in which the GPU copies "
        "counts, while a call that copies and waits is told apart. Python between calls: put the whole step into one "
        "compiled function. Time outside the training call: do less between steps; of a single step it may be what "
        "ends the recording. Tracing or compiling: keep shapes the same, profile after warm-up. A wait for results: "
        "fetch them less often. A wait for other GPUs or processes: balance the work, and send less, earlier. Many "
        "short launches: let a compiler fuse them, or give each more work. A profile without a record of the host "
        "tells how long the GPU waits and not why.\n\n"
        "Stretches shorter than 0.1 ms count as launching where the call that launched the next kernel came after the "
        "kernel before had ended. Where it came before, the GPU pauses between kernels of its queue.\n\n"
        f"Less than {waiting.LEAST_PCT:g} % of a step is not listed. A profiler slows the host, so that gaps between "
        "short kernels look longer than they are without it."
    ),
    severity="it comes before all that can save less of the step; it counts at most its part of the idle time.",
    bad=(
        "dataset = tf.data.Dataset.list_files(pattern).map(decode).batch(64)\n"
        "for images, labels in dataset:\n    loss = train_step(images, labels)\n    print(float(loss))\n"
    ),
    good=(
        "dataset = tf.data.Dataset.list_files(pattern).map(decode, num_parallel_calls=tf.data.AUTOTUNE)\n"
        "dataset = dataset.batch(64).prefetch(tf.data.AUTOTUNE)\n"
        "for step, (images, labels) in enumerate(dataset):\n    loss = train_step(images, labels)\n"
        "    if step % 100 == 0:\n        print(float(loss))\n"
    ),
    sources=(
        "TensorFlow guide, Optimize TensorFlow GPU performance: the input pipeline first, then one GPU, then fp16",
        "TensorFlow guide, Better performance with the tf.data API: prefetching, parallel mapping, caching",
        "Keras API, Model.compile: steps_per_execution helps small models with a large Python overhead",
        "PyTorch tutorials, Performance Tuning Guide: num_workers, pin_memory",
        "JAX documentation, Asynchronous dispatch: printing an array waits for it",
    ),
)
TC302: Final = RuleDoc(
    code="TC302",
    summary="The counted steps hold autotuning: they are no usual steps.",
    explanation=(
        "In the first step a framework lets cuDNN or cuBLAS run every algorithm for each shape, keeps the fastest, and "
        "uses that from then on. Such a step has ten times the kernels of a later one and several algorithms for one "
        "op, most of which never run again. Kernel times, shares and all advice that rests on them are then those of "
        "the tuning.\n\n"
        "Where the profile holds other steps, the tuned one is left out and nothing is said. Else the report is of "
        "that step alone: profile later ones."
    ),
    severity="it comes first: until another step is profiled, no figure says what the others would save.",
    bad="with tf.profiler.experimental.Profile(folder):\n    train_step(images, labels)\n",
    good=(
        "for _ in range(10):\n    train_step(images, labels)\n"
        "with tf.profiler.experimental.Profile(folder):\n    train_step(images, labels)\n"
    ),
    sources=(
        "a public profile of a first step on a T4: 735 kernels, 45 to 58 in one call of a convolution, 1.3 s in all; "
        "a later step of the same model has 190 of 0.16 s",
    ),
)
TC303: Final = RuleDoc(
    code="TC303",
    summary="Ops compute in a precision that this GPU's Tensor Cores do not multiply.",
    explanation=(
        "Volta and Turing multiply float16 on Tensor Cores, and neither float32 nor bfloat16; Ampere and later take "
        "bfloat16 and TF32 too; float64 runs on Tensor Cores of data-centre GPUs alone, far slower than less. Mixed "
        "precision keeps the weights in float32 and multiplies in 16 bits.\n\n"
        "What it saves of the step is bounded: by the time of those kernels in a step, less what it would take at the "
        "ratio of the two peak rates. Where the GPU waits most of the time this is little, and below 1 % of "
        "the step nothing is said. Where the source names no op, the names of the kernels tell that most of the time "
        "off the Tensor Cores is of such products, and the bound is by the rates of their tiles.\n\n"
        "A GPU that multiplies float32 as fast without TF32 as with it, as the GeForce RTX 30 series, gets this item "
        "in place of TC304 there."
    ),
    severity=(
        "it counts the predicted saving; where none is predicted, at most the kernel time concerned times 1 - float32 "
        "rate / float16 rate of the GPU."
    ),
    bad="model = keras.Sequential([keras.layers.Dense(1024), keras.layers.Dense(1024)])\n",
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'model = keras.Sequential([keras.layers.Dense(1024), keras.layers.Dense(1024, dtype="float32")])\n'
    ),
    sources=(
        "NVIDIA A100 whitepaper: BF16 and TF32 Tensor Cores came with compute capability 8.0",
        "tcprobe/gpus.csv: peak rates of each GPU, with their sources",
    ),
)
TC304: Final = RuleDoc(
    code="TC304",
    summary="float32 products ran without TF32, on a GPU whose Tensor Cores take it.",
    explanation=(
        "From Ampere on, Tensor Cores multiply float32 operands rounded to 10 bits of mantissa (TF32), eight times as "
        "fast as the CUDA cores multiply float32. TensorFlow allows it by default, PyTorch allows it in convolutions "
        "and not in matrix products, and NVIDIA_TF32_OVERRIDE=0 forbids it everywhere: where that was set, or the "
        "script turns it off, the item says so.\n\n"
        "The bound is that of float16, to which mixed precision leads from there. Where the source names no op, the "
        "names of the kernels tell that most of the time off the Tensor Cores is of such products, and the bound is by "
        "the rates of their tiles."
    ),
    severity=(
        "it counts the predicted saving; where none is predicted, at most the kernel time concerned times 1 - float32 "
        "rate / float16 rate of the GPU."
    ),
    bad="tf.config.experimental.enable_tensor_float_32_execution(False)\n",
    good="tf.config.experimental.enable_tensor_float_32_execution(True)\n",
    sources=(
        "NVIDIA A100 whitepaper: BF16 and TF32 Tensor Cores came with compute capability 8.0",
        "PyTorch notes, Numerical accuracy and CUDA semantics: TF32 in matrix products off by default since 1.12",
        "tcprobe/gpus.csv: peak rates of each GPU, with their sources",
    ),
)
TC305: Final = RuleDoc(
    code="TC305",
    summary="The GPU has no Tensor Cores.",
    explanation=(
        "NVIDIA GPUs before Volta (compute capability below 7.0), and the GTX 16xx of the Turing generation, have no "
        "Tensor Cores. Mixed precision saves memory and bandwidth there, and no arithmetic.\n\n"
        "Another GPU shortens the kernels at most, not the time that the GPU waits."
    ),
    severity="it counts the kernel time of the ops that could use Tensor Cores, at most.",
    bad="# on a Tesla P100\nmodel.fit(dataset)\n",
    good="# the same on a T4, V100, A100 or later\nmodel.fit(dataset)\n",
    sources=("tcprobe/gpus.csv: which GPUs have Tensor Cores, with their sources",),
)
TC306: Final = RuleDoc(
    code="TC306",
    summary="Sizes of a layer are no multiples of 8, and cost time in this run.",
    explanation=(
        "A Tensor Core kernel wants contiguous dimensions that are multiples of 16 bytes: 8 elements of 16 bits. Other "
        "sizes run on slower kernels, and on some GPUs and libraries on none that uses Tensor Cores. TC101 finds the "
        "same in a model that has not run; here the kernels' own times weigh it.\n\n"
        "Each layer is one item, with all its sizes that are worth changing and what that is predicted to save, as a "
        "share of its measured time where it was measured. Sizes to leave alone (the channels of an image, small "
        "heads) are not listed."
    ),
    severity="it counts the predicted saving; where none is predicted, the kernel time concerned at most.",
    bad="layer = keras.layers.Dense(3087)\n",
    good="layer = keras.layers.Dense(3088)\n",
    sources=(
        "cuBLAS documentation, section Tensor Core Usage",
        "docs/cost-model.md: the rates of unaligned products, and how far predictions of them are off",
    ),
)
TC307: Final = RuleDoc(
    code="TC307",
    summary="A convolution has so few filters that cuDNN leaves the Tensor Cores for it.",
    explanation=(
        "For a convolution of one to four filters, such as the last layer of a generator of grey images, cuDNN often "
        "has no Tensor Core kernel for the weight gradient and takes one that runs on CUDA cores, several times "
        "slower than 8 filters would be. Computing 8 filters and keeping the first ones costs little more "
        "arithmetic.\n\n"
        "The other filters train on nothing. Measure: the gain depends on GPU, cuDNN and sizes."
    ),
    severity="it counts the predicted saving; where none is predicted, the time of those kernels at most.",
    bad="images = keras.layers.Conv2DTranspose(1, 5, padding='same')(features)\n",
    good="images = keras.layers.Conv2DTranspose(8, 5, padding='same')(features)[..., :1]\n",
    sources=("docs/cost-model.md: a weight gradient of one filter, measured in a GAN's step on an A100",),
)
TC308: Final = RuleDoc(
    code="TC308",
    summary="A library chose a kernel without Tensor Cores, though precision, GPU and sizes allow them.",
    explanation=(
        "cuBLAS and cuDNN choose a kernel by heuristics or by timing. For small or thin operands, an unusual layout or "
        "a pass for which the library has no Tensor Core kernel, they take one that runs on CUDA cores. More channels, "
        "the layout NHWC, larger sizes or another compiler may lead to another choice.\n\n"
        "The library may be right: compare step times. A product with a vector is bound by memory and is not listed."
    ),
    severity="it counts the time of those kernels, at most.",
    bad="images = keras.layers.Conv2D(64, 3, data_format='channels_first')(images)\n",
    good="images = keras.layers.Conv2D(64, 3, data_format='channels_last')(images)\n",
    sources=(
        "docs/classification.md: which kernels' names tell that they run without Tensor Cores",
        "cuBLAS documentation, section Tensor Core Usage",
    ),
)
TC309: Final = RuleDoc(
    code="TC309",
    summary="Kernels ran without Tensor Cores, and the source does not say for which ops.",
    explanation=(
        "A summary, such as that of DLProf's simple mode, tells how much kernel time ran on Tensor Cores and not which "
        "ops the rest belongs to: whether they multiply matrices in a precision or size that keeps them off, or are "
        "element-wise ops that never could. A profile that names ops tells them apart and weighs each.\n\n"
        "All of that time is a bound for what Tensor Cores could save, and a loose one: most models have element-wise "
        "kernels too. Those whose names tell that they multiply no matrices do not count. Where a kernel's name tells "
        "that it multiplies, the item names the costliest.\n\n"
        "Where half of that time or more are products in 16 bits, the dtype allows Tensor Cores and the library chose "
        "otherwise: the item then says first to try multiples of 8 and channels last. Where they are products in "
        "another precision, TC303 or TC304 speaks instead."
    ),
    severity="it counts the time of the kernels that are known to run without Tensor Cores, at most; of products in "
    "16 bits what they gain at most at the rates of their tiles.",
    bad="# dlprof --mode=simple python train.py\nmodel.fit(dataset)\n",
    good="# dlprof --mode=tensorflow2 --reports=all python train.py, or tcprobe profile train.py\nmodel.fit(dataset)\n",
    sources=("DLProf 0.16 summaries of simple mode: kernel times by use of Tensor Cores, and no op",),
)
TC310: Final = RuleDoc(
    code="TC310",
    summary="A step launches many kernels of a few microseconds.",
    explanation=(
        f"A launch takes the host several microseconds. Kernels shorter than {TINY_NS // 1000} us hardly cover that: "
        "the GPU waits between them, or is about to as soon as the host does anything else. Most are element-wise ops, "
        "each of which reads and writes all of its operands. A compiler fuses them: fewer launches, and less memory "
        "moved. CUDA graphs launch many kernels at once and make them no fewer.\n\n"
        "TC301 speaks instead where launching is much of what the GPU waits for. Where XLA compiled the step already, "
        "or CUDA graphs launch most kernels, the advice is to give each kernel more work. A profiler makes launches "
        "slower than they are."
    ),
    severity=(
        "it counts the time of these kernels, of the waiting for launches and of short pauses between kernels, at most."
    ),
    bad="@tf.function\ndef train_step(images, labels):\n    ...\n",
    good="@tf.function(jit_compile=True)\ndef train_step(images, labels):\n    ...\n",
    sources=(
        "NVIDIA developer blog, Getting Started with CUDA Graphs: a kernel of 2.9 us takes 3.8 us with launches that "
        "overlap, 9.6 us with a wait after each",
        "TensorFlow guide, Optimize TensorFlow GPU performance: tf.function with jit_compile fuses kernels",
        "PyTorch tutorials, Performance Tuning Guide: fuse operations, CUDA graphs",
    ),
)
TC311: Final = RuleDoc(
    code="TC311",
    summary="Kernels that change layout or type take a noticeable part of the kernel time.",
    explanation=(
        "Such kernels compute nothing: they copy operands into another order of dimensions (NCHW to NHWC, which "
        "convolutions on Tensor Cores want) or another type. A model in one layout and one precision needs hardly "
        "any. Transposes come from images with channels first, from layouts that a library converts around each "
        "convolution, and from attention heads that are split off by transposes. Casts come from layers that compute "
        "in another precision than their neighbours; mixed precision itself casts each weight once a step.\n\n"
        "Where the run holds no convolution there is no layout of images to choose: what is left is not to transpose "
        "between layers.\n\n"
        "Convolutions off the Tensor Cores are run with channels first: TensorFlow converts images and filters for "
        "them though the model has channels last already. There the precision comes first, which brings them onto the "
        "Tensor Cores; on a GPU without any, channels first is the layout to keep.\n\n"
        f"Less than {kernels.LEAST_PCT:g} % of the kernel time is not listed. XLA fuses many of them with their "
        "neighbours: those have no kernel of their own and do not count."
    ),
    severity="it counts the time of these kernels, at most.",
    bad="images = keras.layers.Conv2D(64, 3, data_format='channels_first')(images)\n",
    good="images = keras.layers.Conv2D(64, 3, data_format='channels_last')(images)\n",
    sources=(
        "NVIDIA Deep Learning Performance, Convolutional Layers User's Guide, section Tensor Layouts: NHWC avoids "
        "transposes around Tensor Core kernels",
        "PyTorch tutorials, Channels Last Memory Format",
        "TensorFlow, core/kernels, ComputeInNhwcEnabled: fp16 on Volta and later, bf16 and TF32 on Ampere and later "
        "compute in NHWC, all other configurations in NCHW",
    ),
)
TC312: Final = RuleDoc(
    code="TC312",
    summary="Dynamic loss scaling costs a noticeable part of a step.",
    explanation=(
        "In float16 small gradients become 0, so the loss is multiplied by a scale. With a dynamic scale each step "
        "looks whether every gradient is finite (IsFinite and All of each weight), and updates the weights only then: "
        "a branch whose condition the host must read before it launches more. In large steps that is nothing. In steps "
        "of a few milliseconds it can be most of them: a classifier of MNIST took 5.3 ms a step with a dynamic scale "
        "and 1.0 ms with a fixed one.\n\n"
        "A fixed scale of 1024 suits most small models. Watch the loss: too large a scale gives NaN, too small a one "
        "loses small gradients. bfloat16 needs no scale. What shows in the profile is a part of the cost alone: the "
        "branch also keeps XLA from compiling the update together with the rest."
    ),
    severity="it counts the time of those ops, and the waiting that follows the copy of their answer to the host.",
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss)\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "model.compile(optimizer=keras.optimizers.Adam(1e-3, loss_scale_factor=1024.0), loss=loss, "
        "auto_scale_loss=False)\n"
    ),
    sources=(
        "TensorFlow 2.21 with Keras 3, traced: four weights add 4 IsFinite, 5 All and the branch cond/then to a step",
        "Keras API, Optimizer: loss_scale_factor; Model.compile: auto_scale_loss wraps the optimizer of a "
        "mixed_float16 model",
        "TensorFlow 2 API, tf.keras.mixed_precision.LossScaleOptimizer: dynamic, initial_scale",
    ),
)
TC313: Final = RuleDoc(
    code="TC313",
    summary="Warm-up is among the counted steps, or nothing tells that it is not.",
    explanation=(
        "The first steps of a run trace functions, compile, allocate memory and tune kernels. tcprobe leaves them out "
        "where a profile marks enough steps to tell them apart. It cannot where the steps to count were asked for, "
        "where the profiler was started too early, or where a profile marks one step or none.\n\n"
        "First steps that are slower than the others are said to be there, and come first: figures of all the counted "
        "steps are then not of a usual one. Of one step alone nobody knows, and the item comes last; but first where "
        "the GPU waits for most of it, and mostly for what a first step does too (loading kernels, tracing) or nobody "
        "knows what for. TC302 says it of autotuning, TC301 of compiling and other work that the GPU waits for."
    ),
    severity="it comes first where first steps are slower or the waiting is like a first step's, last where one step "
    "or none is marked; it saves nothing.",
    bad="with tf.profiler.experimental.Profile(folder):\n    train_step(images, labels)\n",
    good=(
        "for _ in range(10):\n    train_step(images, labels)\n"
        "with tf.profiler.experimental.Profile(folder):\n"
        "    for step in range(20):\n"
        "        with tf.profiler.experimental.Trace('train', step_num=step, _r=1):\n"
        "            train_step(images, labels)\n"
    ),
    sources=("TensorFlow guide, Optimize TensorFlow performance using the Profiler: profile steps after warm-up",),
)
TC314: Final = RuleDoc(
    code="TC314",
    summary="One kernel takes a quarter of the kernel time or more, and nothing else here speaks of it.",
    explanation=(
        "Where one kernel dominates, nothing else is worth as much. Often it is one op of one layer that a library "
        "runs by a slow kernel, as the weight gradient of a convolution of one filter (TC307), or an element-wise op "
        "over a large tensor. The item names kernel, op, layer and line, why its time is spent so, and what to try.\n\n"
        "A kernel that uses Tensor Cores well is not listed: it is what the time is there for. Neither is one of an op "
        "of which another item speaks."
    ),
    severity="it counts the time of that kernel, at most; of a kernel that moves data between GPUs no saving is "
    "promised, for its time holds the waiting for the slowest GPU.",
    bad="tensor = tf.cumsum(large, axis=-1)\n",
    good="tensor = tf.cumsum(large[:, :needed], axis=-1)\n",
    sources=("docs/figures.md: causes of time, and what each rests on",),
)
TC315: Final = RuleDoc(
    code="TC315",
    summary="The GPU has memory for a larger batch, and too little to do in a step.",
    explanation=(
        "Products that are too small to fill the GPU, and a host that launches or runs Python for most of a step, cost "
        "nearly the same with twice the batch. A larger batch spreads that over more samples: throughput rises, each "
        "step takes longer. It changes the training too: the learning rate wants to follow.\n\n"
        "This counts only where the peak of the workload's own allocations is known and under half of the GPU's "
        "memory. What a framework reserves tells nothing: TensorFlow takes nearly all memory at once, whatever it "
        "needs. A step that waits for its input, for copies or for other processes gains nothing by a larger batch "
        "and is not listed for that. Memory alone is no reason."
    ),
    severity="it counts the time of such products and of such waiting, at most, per sample as it is now.",
    bad="dataset = dataset.batch(32)\n",
    good="dataset = dataset.batch(256)\n",
    sources=(
        "NVIDIA Deep Learning Performance, Matrix Multiplication Background, section Wave Quantization: products must "
        "fill all SMs",
        "TensorFlow API, tf.config.experimental.get_memory_info: the peak of the allocator",
    ),
)
TC316: Final = RuleDoc(
    code="TC316",
    summary="The key node fires once an epoch, or once in several steps: what counts as a step is none.",
    explanation=(
        "DLProf counts a step at each run of one op, the key node. An op that runs once an epoch (the assignment of an "
        "epoch's counter, a metric that is reset) divides the run into epochs, and all figures of a step, and all "
        "savings of one, are of that many steps. It shows: most other ops ran a multiple as often.\n\n"
        "`tcprobe find-key-node` names an op that runs once in each step; `--key-node auto` has "
        "`tcprobe profile` find it in a short run."
    ),
    severity="it comes before all that saves time of a step: nothing in the report is of one.",
    bad="# dlprof --mode=tensorflow1 --key_node=AssignVariableOp_1 python train.py: 41 calls, other ops 492\n",
    good="# tcprobe profile --profiler dlprof --key-node auto train.py\n",
    sources=(
        "a public report of DLProf 0.13: the key node AssignVariableOp_1 ran 41 times, 332 other ops 492 times each",
    ),
)
TC317: Final = RuleDoc(
    code="TC317",
    summary="float32 products run on Tensor Cores as TF32, and 16 bits are predicted to be faster.",
    explanation=(
        "From Ampere on float32 products use Tensor Cores as TF32 unless that is switched off: such a run uses them, "
        "and mixed precision is no cure for anything. It may still pay: Tensor Cores multiply 16 bits twice as fast, "
        "and half the memory is moved.\n\n"
        "It is said only where a prediction for the products of this very run says so, and weighed by that. bfloat16 "
        "needs no loss scaling. Where a convolution of few filters may fall to a CUDA-core kernel in 16 bits, and that "
        "would cost more than all else gains, the item names it: both changes go together."
    ),
    severity="it counts the predicted saving; without a prediction nothing is said.",
    bad="model = keras.Sequential([keras.layers.Dense(4096), keras.layers.Dense(4096)])\n",
    good=(
        'keras.mixed_precision.set_global_policy("mixed_bfloat16")\n'
        'model = keras.Sequential([keras.layers.Dense(4096), keras.layers.Dense(4096, dtype="float32")])\n'
    ),
    sources=("docs/cost-model.md: how times of products are predicted, and how far predictions are off",),
)
DOCS: Final = (
    TC301,
    TC302,
    TC303,
    TC304,
    TC305,
    TC306,
    TC307,
    TC308,
    TC309,
    TC310,
    TC311,
    TC312,
    TC313,
    TC314,
    TC315,
    TC316,
    TC317,
)
