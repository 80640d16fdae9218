"""Why not more, and what to do first: chosen, ranked and cut by kinds and figures."""
