"""Run a workload without tcprobe: ``python plain.py ORDERS.json``; afterwards write the peak memory of its GPU.

Standard library and TensorFlow only, Python 3.8 and later.
"""

import json
import runpy
import sys
from pathlib import Path


def main() -> None:
    orders = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.argv[:] = [orders["script"], *orders["words"]]
    sys.path[0] = str(Path(orders["script"]).parent)
    runpy.run_path(orders["script"], run_name="__main__")
    tf = sys.modules["tensorflow"]
    gpus = tf.config.list_physical_devices("GPU")
    ask = getattr(tf.config.experimental, "get_memory_info", None)  # since TensorFlow 2.5
    peak = ask("GPU:0")["peak"] if gpus and ask is not None else None
    found = {"tensorflow": tf.__version__, "gpu_used": bool(gpus), "peak_gpu_memory_bytes": peak}
    Path(orders["out"]).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
