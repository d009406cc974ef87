"""Encryption, hashing and signatures. The functions here do no input or output and know no store."""
