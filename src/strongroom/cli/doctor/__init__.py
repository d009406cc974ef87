"""doctor: numbered checks, each with a result in plain words and, if it fails, what to do."""
