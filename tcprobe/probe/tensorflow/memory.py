"""Reads the GPUs and their peak memory from TensorFlow; once, outside any step."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


def gpus(tf: Any) -> List[Dict[str, Any]]:
    """Return name and compute capability ("8.0") of every GPU that TensorFlow sees; None where it does not say."""
    found = []
    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        capability = details.get("compute_capability")
        found.append(
            {
                "name": details.get("device_name"),
                "compute_capability": None if capability is None else ".".join(map(str, capability)),
            }
        )
    return found


def peak_gpu_memory_bytes(tf: Any) -> Optional[int]:
    """Return the peak of TensorFlow's allocator on the fullest GPU (TensorFlow 2.5 or later); None without one."""
    names = [device.name.split(":", 1)[1] for device in tf.config.list_logical_devices("GPU")]
    peaks = [tf.config.experimental.get_memory_info("GPU:" + name.split(":")[-1])["peak"] for name in names]
    return max(peaks) if peaks else None
