"""Everything an audit can say, as closed lists of kinds; `tcprobe.report.audit.words` turns them into sentences.

The order of a list also orders findings and reasons wherever nothing else does.
"""

from __future__ import annotations

from typing import Final, Literal

FindingKind = Literal[
    # TC101, TC105, TC106; TC102; TC103; TC104; TC107; TC108; TC109
    "not_a_multiple",
    "batch_not_a_multiple",
    "group_not_a_multiple",
    "best_left",
    "off_cudnn",
    "too_small",
    "past_a_tile",
    # TC201
    "probabilities_in_half",
    "last_activation_in_half",
    "output_in_half",
    # TC202
    "scale_divided_alone",
    "pure_float16",
    "loss_never_scaled",
    "gradients_unscaled",
    "step_divided_alone",
    "step_scales_nothing",
    "step_never_scales",
    # TC203
    "wrapped_twice",
    "static_raises",
    "static_may_raise",
    "static_scale",
    "fixed_scale",
    "factor_ignored",
    "factor_fixed",
    "scaled_twice",
    "scaled_by_hand",
    # TC204
    "layer_in_float32",
    "product_in_float32",
    # TC205
    "policy_after_layers",
    # TC206
    "half_slower",
    "half_saves_memory",
    "dtype_without_cores",
    "cores_idle_without_tf32",
    "cores_idle_tf32_off",
    # TC208
    "policy_graph_rewrite",
    "scaled_loss_gone",
    "unscaled_gradients_gone",
    "no_loss_scale_argument",
    "loss_scale_gone",
    "api_gone",
    "api_renamed",
    "api_renamed_without_scale",
    # TC210
    "needless_api",
    "needless_scale",
]
"""What a rule reports."""

WhyKind = Literal[
    "no_gain",
    "depthwise",
    "tiny_product",
    "next_input_sets",
    "joined_data_sets",
    "saved_file_sets",
    "package_sets",
    "reshape_sets",
    "length_sets",
    "feed_sets",
    "labels_set",
    "bound_by_memory",
    "bound_by_launch",
    "as_fast_as_aligned",
    "fits_tf32",
    "cublas10_batch",
    "product_sizes_unknown",
    "dtype_unknown",
    "dtype_without_rate",
    "sequence_unknown",
    "few_time_steps",
    "batch_never_innermost",
    "against_aligned_groups",
    "sizes_unknown",
    "saves_little",
    "plain_float32",
    "float64",
    "no_tensor_cores",
    "no_tensor_cores_for",
    "no_fix",
    "nothing_saved",
    "few_channels_slower",
    "idle_whatever_sizes",
    "cost_unknown",
]
"""Why something costs or saves nothing, why its cost is unknown, or why it has no fix."""

COST_UNKNOWN: Final[frozenset[WhyKind]] = frozenset({"product_sizes_unknown", "dtype_unknown", "dtype_without_rate"})
"""Why the cost of a size is unknown."""
BEST_LEFT: Final[tuple[WhyKind, ...]] = (
    "few_channels_slower",
    "tiny_product",
    "next_input_sets",
    "joined_data_sets",
    "saved_file_sets",
    "package_sets",
    "reshape_sets",
    "length_sets",
    "feed_sets",
    "labels_set",
    "depthwise",
    "fits_tf32",
    "bound_by_memory",
    "bound_by_launch",
    "as_fast_as_aligned",
    "nothing_saved",
)
"""Why a size is best left as it is, with nothing else to say of it."""

InputSize = Literal["shape", "depth", "height", "width", "length", "channels", "rows", "features"]
"""A size of what a layer takes, or all of them (``shape``); ``rows`` are samples and steps of a sequence."""

EffectKind = Literal[
    "slower",
    "off_tensor_cores",
    "slower_by_unknown",
    "leave_filters",
    "wgrad_on_cuda_cores",
]
"""What a bad size does to the products it affects; if it costs nothing, a `WhyKind` is used instead."""

AddedKind = Literal[
    "more_filters",
    "data_sets_it",
    "feed_sets_it",
    "must_fit",
    "padding_may_lose",
    "labels_unused",
    "groups_unpadded",
    "setting",
    "size_changed",
]
"""A remark to add, or one item of a list of remarks."""

RelatedKind = Literal["takes", "puts_out_same", "built_before_policy"]
"""How another place is related to a finding."""

FixKind = Literal[
    "change_sizes",
    "compute_in_float32",
    "activation_split",
    "compute_in_policy",
    "call_renamed",
    "scale_as_keras_3",
]
"""What a fix does."""

LinkReason = Literal[
    "feeder_open",
    "two_sizes",
    "input_unknown",
    "join_unknown",
    "grouped",
    "reshaped",
    "output_unknown",
    "does_not_follow",
    "image_channels",
]
"""Why the values that depend on a size cannot be followed."""

RefusalKind = Literal[
    "not_literal",
    "used_otherwise",
    "set_elsewhere",
    "linked_unknown",
    "not_split",
    "unproven",
]
"""Why a finding has no fix; a `LinkReason` may say so too."""
