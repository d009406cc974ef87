"""doctor: numbered checks, each with a result in plain words. A check that fails also says what to do."""
