"""The few inner loops that are written in C, built on the user's machine the first time they are needed."""

from dragoman.native.build import library as library
from dragoman.native.build import why_not as why_not
