"""What an audit does in the process of a model: finds models, traces one step, stops the script; trains nothing."""
