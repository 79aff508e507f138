"""Jobs on a Ray cluster: submitting a sweep, and what is checked on the head before."""
