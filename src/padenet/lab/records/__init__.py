"""What is kept of a run, and nothing that needs torch to train."""
