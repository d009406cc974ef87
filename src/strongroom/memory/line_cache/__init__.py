"""Keeps decrypted lines in RAM within one limit of bytes, in a `CachedNamespace` for each actor and namespace."""
