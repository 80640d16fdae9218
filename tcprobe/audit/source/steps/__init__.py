"""Which steps the program trains: what trains, the models of each, their batch, and whether XLA compiles them."""
