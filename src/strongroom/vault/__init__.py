"""The vault: one store with its keys, log and issuer.

`create_open` makes and opens it, `vault` is what its owner holds, `key_rotation` replaces keys, `owner_audit` reads the
log.
"""
