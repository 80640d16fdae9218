"""How long a product takes on a given GPU, predicted; the GPU need not be present."""
