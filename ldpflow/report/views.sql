-- Views of an exported study. docs/tables.md describes the tables. In this file, {cell} stands for the columns that
-- identify a cell in the study.
-- The table `summary` has five further columns. `setting` has the settings in which paths differ. `series` is the method
-- with those of its settings that differ. `level_state` says whether a method holds its level: 'holds', 'fails', or
-- 'unclear' (too few replicates to say). A replicate without an interval counts as a miss. `barred` says why a method is
-- never recommended. `place` ranks the methods that are not barred, at each path, n, level and coordinate.

-- Rows of replicates, each with the settings of its path.
CREATE VIEW replicates AS
SELECT * FROM paths JOIN stored_replicates USING (path);

-- Coverage beside its nominal level, with the settings of the path. As in summary, `coverage` is over the replicates
-- that have an interval. `deviation` is coverage_failures_as_misses less the level.
CREATE VIEW coverage AS
SELECT setting, series, {cell}, {settings},
       coverage, coverage_mcse, coverage_low, coverage_high,
       coverage_failures_as_misses, coverage_failures_as_misses_mcse,
       coverage_failures_as_misses_low, coverage_failures_as_misses_high,
       coverage_failures_as_misses - level AS deviation,
       level_state, replicates, failures, failures / replicates AS undefined
FROM summary;

-- Methods that may be recommended. In each setting, those that hold their level have the first places, the shortest
-- first. The others follow, the highest coverage first. The first place is recommended if its level_state is 'holds'.
CREATE VIEW best AS
SELECT *, failures / replicates AS undefined
FROM summary
WHERE place IS NOT NULL;

-- The best block exponent beta: the first by `place`, with everything else equal.
CREATE VIEW best_beta AS
SELECT setting, {others}, beta, level_state, coverage_failures_as_misses, length_mean
FROM summary
WHERE beta IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY {others} ORDER BY place NULLS LAST, beta) = 1;

-- Number of replicates without an interval, by cell and status.
CREATE VIEW lost AS
SELECT setting, {cell}, status, count(*) AS replicates
FROM replicates
WHERE status NOT IN ('ok', 'range_end')
GROUP BY ALL;

-- Coverage of the first replicates, failures as misses: how it settles as replicates are added.
CREATE VIEW running_coverage AS
SELECT setting, {cell}, replicate,
       avg(coalesce(covered, false)::INTEGER) OVER w AS coverage_failures_as_misses, count(covered) OVER w AS finished
FROM replicates
WINDOW w AS (PARTITION BY {cell} ORDER BY replicate ROWS UNBOUNDED PRECEDING);
