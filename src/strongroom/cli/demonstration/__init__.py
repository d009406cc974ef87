"""The demonstration behind `strongroom demo`: a story in numbered steps, each in fresh processes.

`report` holds the strict rules, `stage` the temporary place and its processes, `talk` what is said, `steps` the table.
What a step does is in `remembering`, `refusing`, `noticing` and `forgetting`. `attacker` and `player` run as programs
of their own: the one has the vault's files and no keys, the other does what the command line has no verb for.
"""
