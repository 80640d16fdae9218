"""The documentation of every rule: what `tcprobe explain`, the page of rules and SARIF print.

The rules on sizes, on precision and on runs have a file each; those that speak of how full kernels are stand here.
"""

from __future__ import annotations

from typing import Final

from tcprobe.rules.docs import precision, run, sizes
from tcprobe.rules.docs.base import RuleDoc
from tcprobe.rules.run import kernels

TC318: Final = RuleDoc(
    code="TC318",
    summary="Kernels that multiply nothing follow one another, where one kernel could do.",
    explanation=(
        "Elementwise kernels, norms, softmax, reductions, copies and casts are bound by memory or by their launch: "
        "Tensor Cores do nothing for them. Where several follow one another on a stream, with no product, copy of "
        "memory or other kernel between, each writes what the next one reads again. A compiler makes one kernel of "
        "them (XLA, torch.compile), or a library has one (a norm with the addition before it).\n\n"
        "Such a row is a chain (table chains, --by chain). What fusing it saves is bounded, not predicted: by the "
        "time of its kernels; where the shapes of its ops and the GPU are known, by that time less what one kernel "
        "takes to read what the first op reads and write what the last one writes, at the GPU's memory bandwidth, as "
        "far as it does not fit in the L2 cache. Kernels of an op that could use Tensor Cores are of no chain, "
        "nor are changes of layout that a library makes around a product.\n\n"
        f"Less than {kernels.LEAST_PCT:g} % of the kernel time is not listed. Where XLA compiled the step nothing is "
        "said: it fused what it would; nor where nothing in the window multiplies, which then is no step of training; "
        "nor of tiny kernels where TC301 or TC310 speaks of launches."
    ),
    severity="it counts that bound.",
    bad="@tf.function\ndef train_step(images, labels):\n    ...\n",
    good="@tf.function(jit_compile=True)\ndef train_step(images, labels):\n    ...\n",
    sources=(
        "NVIDIA Deep Learning Performance, Memory-Limited Layers User's Guide: normalisation, activation and pooling "
        "are limited by memory bandwidth",
        "TensorFlow guide, XLA: fusion keeps intermediate values in registers instead of memory",
        "PyTorch tutorials, Performance Tuning Guide: fuse operations",
    ),
)
TC319: Final = RuleDoc(
    code="TC319",
    summary="The last wave of a product's blocks leaves much of the GPU empty.",
    explanation=(
        "A library cuts the result of a product into tiles and gives each to a block; an SM runs a few blocks at once, "
        "by their registers, shared memory and threads. The blocks that fit on all SMs are a wave. A last wave that is "
        "mostly empty takes as long as a full one: 1.1 waves take the time of 2.\n\n"
        "It is worked out from the tile in a kernel's name, its grid and its configuration, for kernels whose blocks "
        "end with their tile; those that stay for all tiles (nvjet, stream-K, Hopper's) launch about one block for "
        "each SM, which tells nothing. The bound takes every block to last equally long; blocks that share an SM with "
        "fewer others are faster, so the saving is smaller. Split K and batches are in the grid, and K never is.\n\n"
        f"Less than {kernels.LEAST_PCT:g} % of the kernel time is not listed."
    ),
    severity="it counts the time of the empty part of last waves, at most.",
    bad="model.fit(images, labels, batch_size=136)\n",
    good="model.fit(images, labels, batch_size=128)\n",
    sources=(
        "NVIDIA Deep Learning Performance, Matrix Multiplication Background User's Guide: wave quantization",
        "CUDA C++ Programming Guide, Technical Specifications per Compute Capability: what an SM holds",
    ),
)
TC320: Final = RuleDoc(
    code="TC320",
    summary="Tensor Core kernels load less than 16 bytes at once, for a size that is no multiple of it.",
    explanation=(
        "The name of a CUTLASS or cuBLAS kernel tells how many elements it loads at once (align1, align2, ldg1). Less "
        "than 16 bytes is the library's answer to a contiguous dimension that is no multiple of them: a size, a view "
        "or a leading dimension. Such kernels use Tensor Cores, at a third to two thirds of the rate.\n\n"
        "It speaks of kernels without an op, whose shapes nobody knows; TC306 names the sizes where they are known, "
        "with what the next size is predicted to save. The bound is the time of these kernels less what they would "
        "take at the rate that large aligned products were timed at on this generation (docs/cost-model.md): products "
        "that memory or their launch limits gain less, or nothing."
    ),
    severity="it counts that bound; where no step's length is known, the kernels' time.",
    bad="vocabulary = 50257\n",
    good="vocabulary = 50304\n",
    sources=(
        "NVIDIA, cuBLAS documentation, Tensor Core Usage: alignment of sizes, leading dimensions and pointers",
        "docs/cost-model.md: rates of unaligned products, from public timings",
    ),
)
TC321: Final = RuleDoc(
    code="TC321",
    summary="A loss that the workload logged is no finite number any more.",
    explanation=(
        "From the first step that logs NaN or an infinity on nothing trains, and times are of that: a dynamic loss "
        "scale leaves every update out, and comparisons of NaN change which branch runs. The item names the first "
        "step that logs it and the last that logged a finite value; a loss is of the weights before its step's "
        "update, so that the update that broke them lies between.\n\n"
        "In float16 the usual cause is too large a fixed loss scale: a gradient times the scale above 65,504 is "
        "infinite, and so are the weights after its update. 1e6 did that to a classifier of MNIST in its first step. "
        "A dynamic scale leaves such updates out: there the forward pass overflows. Without mixed precision it is the "
        "learning rate, the data or a division by 0.\n\n"
        "A loss that was NaN in between and is finite at the end is no item. Which scale the optimizer takes is what "
        "the probe saw of it; a scale that the script multiplies itself is not known."
    ),
    severity="it comes first: until it is mended no figure is of a training. It saves nothing.",
    bad="optimizer = keras.optimizers.Adam(1e-3, loss_scale_factor=1e6)\n",
    good="optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(1e-3))\n",
    sources=(
        "NVIDIA, Training With Mixed Precision: choosing a scaling factor, and leaving updates out that overflow",
        "train_mnist on TensorFlow 2.4 to 2.21: with a fixed scale of 1e6 the second step logs NaN",
    ),
)
DOCS: Final[tuple[RuleDoc, ...]] = (*sizes.DOCS, *precision.DOCS, *run.DOCS, TC318, TC319, TC320, TC321)
"""Ordered by code."""
