"""Benchmarks: `billow bench NAME` runs `benchmarks.NAME.run(quick=...)`, which prints a table and
returns rows {"case", "unit", "billow", "peer", "peer_value", "ratio"}; a ratio above 1 means that
Billow is better."""
