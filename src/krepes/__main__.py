"""`python -m krepes` is the command line."""

from krepes.cli import main

if __name__ == "__main__":
    main()
