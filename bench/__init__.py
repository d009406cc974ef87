"""Benchmarks: `python -m bench`, each figure beside a bare baseline measured in the same run (docs/benchmarks.md)."""
