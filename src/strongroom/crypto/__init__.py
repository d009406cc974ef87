"""Encryption, hashing and signatures as plain functions: they know no vault, no cap and no store."""
