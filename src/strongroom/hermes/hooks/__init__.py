"""Shell hooks for runtimes that call a program around their work: inject memory, check a tool call, log a tool call.

Input and output are Hermes' JSON. The rules are pure; `guarded_home` connects them to a home, its cap and the gate.
"""
