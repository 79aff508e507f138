"""Write a made-up pilot: the amounts that 2,500 customers spent in a month.

    python make_pilot.py spend.csv        # or spend.parquet

A fifth of the customers spent nothing. The other amounts follow a lognormal law and are rounded to whole
units. The seed is fixed, so the file is always equal.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

CUSTOMERS = 2500
NOTHING = 0.2


def pilot() -> pa.Table:
    """Table of customers and their amounts."""
    rng = np.random.default_rng(20240520)
    spent = np.round(rng.lognormal(mean=4.2, sigma=0.9, size=CUSTOMERS))
    spent[rng.random(CUSTOMERS) < NOTHING] = 0.0
    return pa.table({"customer": [f"c{i:04d}" for i in range(CUSTOMERS)], "amount": spent})


def main() -> None:
    """Write the file that the command line names."""
    file = Path(sys.argv[1])
    if file.suffix == ".parquet":
        pq.write_table(pilot(), file)
    else:
        pyarrow.csv.write_csv(pilot(), file)


if __name__ == "__main__":
    main()
