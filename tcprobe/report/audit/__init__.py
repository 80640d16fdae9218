"""Build the document of an audit."""
