"""The step that a change is predicted to give: measured times, and ratios of predicted ones."""
