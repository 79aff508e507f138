"""Components of a study: problems, mechanisms, algorithms, protocols and interval methods."""
