"""What a mechanism and a design promise to a user."""
