"""`python -m strongroom`."""

from strongroom.cli import main

if __name__ == "__main__":
    main()
