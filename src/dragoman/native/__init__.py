"""Inner loops in C, built on the user's machine when first needed: one folder of sources for each library."""

from dragoman.native.build import library as library
from dragoman.native.build import why_not as why_not
