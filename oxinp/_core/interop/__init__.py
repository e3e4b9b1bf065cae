"""Arrays to and from other libraries without a copy."""
