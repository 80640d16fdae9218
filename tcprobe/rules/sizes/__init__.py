"""The TC1xx rules: badly chosen sizes."""
