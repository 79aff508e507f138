"""The parts of a study that have no kind: heading, grid and trajectory."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

__all__ = ["Grid", "Heading", "Monitor", "Trajectory"]

FileName = Annotated[
    str,
    Field(
        pattern=r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z",
        description="a file name of up to 100 letters, digits, '.', '_' and '-', the first a letter or digit",
    ),
]


class Heading(BaseModel):
    """Settings above the tables of a study.

    Parameters
    ----------
    name : str
        Name of the study and of its run's folder.
    seed : int
        Seed of every random number of the study.
    replicates : int
        Independent replicates of every cell.
    """

    name: FileName
    seed: Annotated[int, Field(ge=0, lt=2**63, description="an integer in [0, 2^63)")] = 0
    replicates: Annotated[int, Field(ge=1, le=10**9)] = 200


class Grid(BaseModel):
    """The axes that belong to no other table.

    Parameters
    ----------
    n : int
        Users; one path serves every n, where its algorithm does not depend on n.
    level : float
        Nominal coverage of the intervals.
    independent_n : bool
        Whether every n has paths and users of its own.
    """

    n: Annotated[int, Field(ge=1, le=10**12)]
    # At the very ends critical values leave the range of floating point.
    level: Annotated[float, Field(ge=1e-6, le=1 - 1e-9, description="a number in (0, 1)")] = 0.9
    independent_n: bool = False


class Monitor(BaseModel):
    """Looking before the end: from which n on, and the length at which replicates stop.

    The length is ``target_length``, or the oracle's at ``target_n`` users; neither, and none stops.

    Parameters
    ----------
    first_n : int
        Users at the first look: coverage at every n is counted from here on; the smallest n unless given.
    target_length : float
        Length below which a replicate stops, unit of theta.
    target_n : int
        Users at whose oracle's length a replicate stops, in place of ``target_length``.
    """

    first_n: Annotated[int, Field(ge=1, le=10**12)] | None = None
    target_length: Annotated[float, Field(gt=0, description="a number > 0")] | None = None
    target_n: Annotated[int, Field(ge=1, le=10**12)] | None = None


class Trajectory(BaseModel):
    """The checkpoints of error trajectories: log-spaced from ``first`` to the largest n.

    Of an algorithm of many epochs: the middles of ``points`` equal parts of its steps, and the last one.

    Parameters
    ----------
    first : int
        Users at the first checkpoint.
    points : int
        Checkpoints of a trajectory, beside every n.
    """

    first: Annotated[int, Field(ge=1, le=10**12)] = 10
    points: Annotated[int, Field(ge=2, le=1000)] = 17
