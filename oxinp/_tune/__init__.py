"""Tuning: ``python -m oxinp tune`` measures which of several right ways is the fastest on this device, and keeps it."""
