"""Entry point of `python -m dragoman` and of the command `dragoman`; handles Ctrl-C even while modules are imported."""

import sys

from dragoman.parent_process import follow_parent


def main() -> None:
    """Import the command line and run it."""
    follow_parent()  # a rank does this before the imports that take seconds
    try:
        from dragoman.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("dragoman: stopped\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
