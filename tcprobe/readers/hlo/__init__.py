"""HLO modules, as XSpace files carry them: what XLA compiled."""
