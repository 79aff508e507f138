-- Views of an exported study. Its tables are described in docs/tables.md. {cell} stands for the columns
-- that name a cell in this study, whatever settings it varies.
-- In summary, `setting` says what tells a path from the study's others, `series` the method and those of its
-- settings that differ. `level_state` says whether a method holds its level: 'holds', 'fails', or 'unclear' (too few
-- replicates to say), by the rule of all that is ranked, which counts a replicate without interval as a miss; `barred`
-- says why a method is not recommended whatever it covers; `place` counts the others of its path, n, level and coordinate.

-- Rows of replicates, each with the settings of its path.
CREATE VIEW replicates AS
SELECT * FROM paths JOIN stored_replicates USING (path);

-- Coverage beside its nominal level, with the settings of the path. As in summary, `coverage` is that of the
-- replicates with an interval. `deviation` is of the coverage that ranks methods, with failures as misses.
CREATE VIEW coverage AS
SELECT setting, series, {cell}, {settings},
       coverage, coverage_mcse, coverage_low, coverage_high,
       coverage_failures_as_misses, coverage_failures_as_misses_mcse,
       coverage_failures_as_misses_low, coverage_failures_as_misses_high,
       coverage_failures_as_misses - level AS deviation,
       level_state, replicates, failures, failures / replicates AS undefined
FROM summary;

-- Methods of a setting by place: those that hold their level, the shortest first, then the others, the highest
-- coverage first. The first is recommended only where its level_state is 'holds'.
CREATE VIEW best AS
SELECT *, failures / replicates AS undefined
FROM summary
WHERE place IS NOT NULL;

-- The block exponent as a design knob: the first beta by the rule of `best`, everything else being equal.
CREATE VIEW best_beta AS
SELECT setting, {others}, beta, level_state, coverage_failures_as_misses, length_mean
FROM summary
WHERE beta IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY {others} ORDER BY place NULLS LAST, beta) = 1;

-- Where replicates are lost.
CREATE VIEW lost AS
SELECT setting, {cell}, status, count(*) AS replicates
FROM replicates
WHERE status NOT IN ('ok', 'range_end')
GROUP BY ALL;

-- Running coverage, failures as misses: has the Monte Carlo error settled?
CREATE VIEW running_coverage AS
SELECT setting, {cell}, replicate,
       avg(coalesce(covered, false)::INTEGER) OVER w AS coverage_failures_as_misses, count(covered) OVER w AS finished
FROM replicates
WINDOW w AS (PARTITION BY {cell} ORDER BY replicate ROWS UNBOUNDED PRECEDING);
