"""Files of one column."""


def column_file(folder, values):
    """A CSV file of a column a; a later one replaces it."""
    file = folder / "data.csv"
    file.write_text("\n".join(["a", *map(str, values)]) + "\n")
    return str(file)
