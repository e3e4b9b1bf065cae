"""Sorting: radix sort of long rows, networks and block sorts of short ones, and what is read off sorted elements."""
