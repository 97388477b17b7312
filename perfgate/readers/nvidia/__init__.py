"""NVIDIA's tools: Nsight Systems, Nsight Compute, nccl-tests."""
