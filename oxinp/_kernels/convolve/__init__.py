"""Convolutions without transforms."""
