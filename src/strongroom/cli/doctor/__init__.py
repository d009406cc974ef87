"""doctor: numbered checks in plain words, each with what to do."""
