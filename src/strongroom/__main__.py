"""Runs the command line for `python -m strongroom`."""

from strongroom.cli import main

if __name__ == "__main__":
    main()
