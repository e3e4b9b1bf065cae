"""What users are told: warnings and floating-point errors, by the line of theirs that asked for the operation."""
