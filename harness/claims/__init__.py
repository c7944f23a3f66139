"""The claims of the debate about locks on Redis: each is an experiment that ends in confirmed, refuted or undecided."""
