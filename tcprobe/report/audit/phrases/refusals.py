"""The sentences for why a finding has no fix."""

from __future__ import annotations

from typing import Final

from tcprobe.rules.base import Says

SAYS: Final[Says] = {
    "place_of_two_sizes": "one place would have to hold two sizes",
    "place_unknown": "where {argument} of '{layer}' stands is unknown",
    "not_in_source": "{argument} of '{layer}' is not known from the source",
    "other_in_source": "{argument} of '{layer}' is another number in the source",
    "argument_of_two_numbers": "one argument would have to be two numbers",
    "used_otherwise": "the number is also used for something else",
    "no_literal": "the number comes about by arithmetic, or from no literal",
    "unparsable": "the edited file does not parse",
    "other_calls": "the edited file has other calls",
    "other_value": "{argument} would become another value than asked",
    "argument_lost": "an argument was lost",
    "no_whole_number": "{literal} is no whole number",
    "literal_of_two_numbers": "{literal} would have to be two numbers",
    "factor_open": "{size} is a product, and which factor to change is unknown",
    "no_size_named": "the finding names no size to change",
    "layer_unknown": "the layer is unknown",
    "set_by_no_layer": "the size is set by no layer",
    "named_layer_unknown": "'{layer}' is unknown",
    "output_told": "'{layer}' is told what to put out",
    "class_unknown": "what {class_name} makes of another size is unknown",
    "other_number": "{argument} of '{layer}' is not {size}",
    "own_groups": "{size} {argument} do not divide into its groups",
    "target_unknown": "the target of '{layer}' is unknown",
    "more_than_features": "'{layer}' takes more than features",
    "taker_unknown": "what takes the output of '{layer}' is unknown, or it is the model's own",
    "way_unknown": "what becomes of '{layer}' before '{taker}' is unknown",
    "product_of_changed": "'{op}' works on what changes",
    "takes_state": "'{layer}' may take a state",
    "taker_groups": "{channels} channels do not divide into the groups of '{layer}'",
    "layer_makes_unknown": "what '{layer}' makes of another size is unknown",
    "would_not_fit": "'{layer}' would have to fit another size",
    "source_unknown": "what '{layer}' takes is unknown, or the model's input",
    "several_inputs": "'{layer}' takes several inputs",
    "no_multiple": "{size} is no multiple of {of}",
    "filters_depend": "the filters depend on one another",
    "filters_not_last": "filters are not the last axis",
    "filters_no_literal": "the number of filters is no literal in the call",
    "stands_elsewhere": "the layer stands neither in a Sequential's list nor in a call",
    "name_other": "{name} is something else",
    "name_missing": "{name} is not imported",
    "activation_elsewhere": "its activation is not written in the call alone, or the layer is used twice",
    "layers_counted": "the code takes layers of the model by number or name",
    "vocabulary_not_dense": "only a Dense layer's vocabulary is understood",
    "activation_no_choice": "its activation is not that of a choice among tokens or classes",
    "taken_by_layer": "another layer takes its output",
    "taken_by_product": "a product takes its output",
    "labels_one_hot": "labels may be one-hot, which must be of the same size",
    "labels_unknown": "whether its labels are numbers of classes is unknown",
    "in_container": "the number is put into a container",
    "default_of_lambda": "the number is the default of a lambda",
    "used_in_other_file": "{name} is used in another file",
    "channels_unknown": "what makes {channels} channels of {of} is unknown",
    "in_shape": "the size stands in a shape as well",
    "data_as_many": "the data has as many features, and the code may add them up",
    "used_by_other_code": lambda fields: (
        f"{'{function}()' if fields['function'] else OUTSIDE} uses it too, and is no part of this model"
    ),
    "unproven": "the sizes that it shares literals with do not come out as wanted",
}
OUTSIDE: Final = "the module's own code"
