"""Setting a runtime up: its policy, its cap, the plugin in its home, and taking all of that away again."""
