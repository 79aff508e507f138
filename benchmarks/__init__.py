"""Speed, measured: against what a user could pick instead, and against the floor."""
