
ñ/device:GPU:0*		compute_cap_major*memory_size*memory_bandwidth*
core_count*
clock_rate*NVIDIA A100-SXM4-40GB*gpu_device_name*
Nvidia*device_vend –áV2 l2	 ÄÄì…°-2	 ÄÄ‘…ù2	 
_][YWGECFailed to enable CUPTI tracing: CUPTI_ERROR_INSUFFICIENT_PRIVILEGESSDetected GPU events dropped on locked: Profiler has recorded 6317194 events dropped"locked