"""Run a workload under NVIDIA's Nsight Systems (nsys)."""
