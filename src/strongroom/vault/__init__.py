"""The vault: one store with its keys, log and issuer.

`opening` makes and opens it, `owner` is what its owner holds, `rotation` replaces keys, `auditing` reads the log.
"""
