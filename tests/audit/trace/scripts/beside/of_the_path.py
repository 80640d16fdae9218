units = 250
