"""TC1xx: badly chosen sizes."""
