"""Programs of their own, which the steps start.

`attacker` has the vault's files and no keys, `player` does what the command line has no verb for, `visitor` has a
server's address and a cap, `intruder` is another user, `gateway` is a runtime that hosts providers, and `driver` is run
by Hermes' Python and drives its gateway.
"""
