"""What the runs of a sweep say together: which combination is fastest, what each change gives, whose losses stray."""

from tcprobe.analysis.sweep.flow import figures_of_run, result_of

__all__ = ["figures_of_run", "result_of"]
