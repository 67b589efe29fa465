"""Workloads, peers and limits that several benchmarks share."""
