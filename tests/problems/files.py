"""Files of one column."""


def column_file(folder, values):
    file = folder / "data.csv"
    file.write_text("\n".join(["a", *map(str, values)]) + "\n")
    return str(file)
