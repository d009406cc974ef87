"""Run the command line with `python -m strongroom.cli`."""

from strongroom.cli import main

if __name__ == "__main__":
    main()
