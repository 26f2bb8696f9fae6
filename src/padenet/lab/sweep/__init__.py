"""Many runs: which, where, and how far they are."""
