"""The vault: one store with its keys, log and issuer.

`create_open` makes and opens it, `vault` is the owner's interface, `key_rotation` replaces keys, `owner_audit` reads
and verifies the log, `issue` mints and revokes caps, `backup` and `migrate` copy it elsewhere.
"""
