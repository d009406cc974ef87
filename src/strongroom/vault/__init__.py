"""The vault: one store with its keys, log and issuer.

`create_open` makes and opens a vault, `vault` is the owner's interface, and `key_rotation` replaces keys. `owner_audit`
reads and verifies the log, and `issue` mints and revokes caps. `backup` copies a vault, and `migrate` moves it to
another kind of store.
"""
