"""DeepSpeed logs: timers, throughput, memory, collectives, FLOPS."""
