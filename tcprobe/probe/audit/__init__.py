"""What an audit runs in the process of a model: finds models, traces one step, stops the script."""
