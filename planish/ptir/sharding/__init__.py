"""Sharding as passes: `shard` says how every value is cut over a mesh, `partition` makes the program of one rank of it.

`factors` is the table both go by; `reshard` and `local` are what `partition` builds with; `combine` tidies up, `postponed` with it.
"""
