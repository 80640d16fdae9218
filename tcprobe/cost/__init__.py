"""How long a product takes on a GPU that need not be there."""
