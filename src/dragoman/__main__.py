"""`python -m dragoman`, and what the command `dragoman` calls: Ctrl-C is answered while the rest is still imported."""

import sys


def main() -> None:
    """Import the command line and run it."""
    try:
        from dragoman.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("dragoman: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
