"""Many runs over a grid of configurations and seeds, and the report that compares them."""
