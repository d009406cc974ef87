"""Shell hooks for runtimes that call programs around their work: inject memory, check a tool call, record one.

What goes in and out is Hermes' JSON. The rules are pure; `guarded_home` ties them to a home, its cap and the gate.
"""
