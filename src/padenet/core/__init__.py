"""What a unit is, without any framework: forms, starts, fits, facts, noise, text."""
