"""What is pending: expressions, their recording, the scheduler that fuses and launches, and placement."""
