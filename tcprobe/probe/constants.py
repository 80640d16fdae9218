"""The constants that the probe and the rest of tcprobe must agree on; the rest imports them from here."""

from __future__ import annotations

# What marks a step in a profile: the name of an annotation whose metadata holds the step's number.
STEP_MARK = "tcprobe_step"
# Samples that a step is costed for where the model does not say how large its batch is.
SAMPLES = 1024
# The window: steps in it, the seconds and the bytes of profile that end it sooner, steps that never are in it.
WINDOW_STEPS = 20
WINDOW_SECONDS = 60
# (To write a profile takes 15 to 39 times its size of host memory.)
WINDOW_BYTES = 50_000_000
# Values of a gradient larger than 2 to each of these are counted: from there on follows what a scale of a power of 4
# would keep.
EXPONENTS = tuple(range(-49, 17, 2))
# A profile that the script took itself is copied up to this size.
SCRIPT_BYTES = 200_000_000
SKIPPED_STEPS = 2
# A file of the run folder that is removed for the last files of a run where the disk is full: they take some 20 kB.
RESERVE = ".reserve"
RESERVED_BYTES = 256 * 1024
# A run folder's record; the temporary name of a run folder, until its run has ended, starts so: .partial-NAME-RANDOM.
RECORD = "run.json"
PARTIAL = ".partial-"
# The folder beside probe.json for processes of the run that ran beside the first.
OTHERS = "others"
# In the folder of a run under Nsight Systems, that of a second run, under a framework's own profiler.
WITH_XSPACE = "with-xspace"
# In the folder of a run whose launcher started several ranks, the folder of theirs: RANKS/rank-N.
RANKS = "ranks"
# In the folder of the probe, what the framework's profiler logs of its own work; the file in memory that sorts it out.
PROFILER_LOG = "profiler.log"
ASIDE = "tcprobe-aside"
# Beside config.json: what each rank starts.
LAUNCH = "launch.json"
# Beside config.json while the run lasts: the words of the command line, of which config.json has masked some.
WORDS = "words.json"
# The domain of the probe's NVTX ranges, and the range that a tool's recording begins and ends with.
DOMAIN = "tcprobe"
WINDOW_RANGE = "tcprobe window"
# NVTX ranges in domain tcprobe: what marks a phase of an eager step; what the text of a layer's range begins with.
PHASES = ("forward", "backward", "optimizer", "validation", "input")
LAYER_MARK = "layer "
# calls.bin: what it begins with, the bytes of a call, how many calls it holds, and what stands in place of the steps of
# a record that takes the latest call back, and of one that says which thread has the steps from here on.
CALLS_MAGIC = b"tcprobe\0"
CALLS_VERSION = 1
CALL_BYTES = 16
MOST_CALLS = 1 << 22
TAKEN_BACK = (1 << 31) - 1
HANDED_OVER = TAKEN_BACK - 1
