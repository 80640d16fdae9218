"""The rules, one module each, and the size engine that audits and reports share; `registry` lists them."""
