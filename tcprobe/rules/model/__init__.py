"""What the rules on sizes ask of a model: its sizes, what each costs, which are one number."""
