"""Decrypted lines in RAM, one `CachedNamespace` for each (actor, namespace), within one budget of bytes."""
