"""Benchmarks: `billow bench NAME` runs `benchmarks.NAME.run(quick=...)`, which prints a table and
returns rows {"case", "unit", "billow", "peer", "peer_value", "ratio"}; ratio > 1: Billow is better."""
