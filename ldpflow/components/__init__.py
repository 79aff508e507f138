"""What a study is made of: problems, mechanisms, algorithms, protocols and interval methods."""
