"""Set up a Hermes home: its policy, its cap and the plugin; and undo that."""
