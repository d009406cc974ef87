"""Move a whole vault between a SQLite file and a bucket."""
