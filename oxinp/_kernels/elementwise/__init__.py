"""Elementwise chains: a value per element, by layouts."""
