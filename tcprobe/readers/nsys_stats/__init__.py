"""The CSV reports of `nsys stats`, under the names that they have had since 2021."""
