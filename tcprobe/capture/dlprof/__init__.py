"""Run a workload under NVIDIA's DLProf."""
