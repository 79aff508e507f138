-- Views of an exported study. Its tables are described in docs/tables.md. {cell} stands for the columns
-- that name a cell in this study, whatever settings it varies.
-- In summary, `setting` says what tells a path from the study's others, `series` the method and those of its
-- settings that differ. Whatever ranks or compares with the level counts a replicate without interval as a miss.

-- Coverage beside its nominal level, with the question that everybody asks.
CREATE VIEW coverage AS
SELECT setting, series, {cell},
       coverage_failures_as_misses AS coverage, coverage_failures_as_misses_mcse AS coverage_mcse,
       coverage_failures_as_misses_low AS coverage_low, coverage_failures_as_misses_high AS coverage_high,
       coverage_failures_as_misses - level AS deviation,
       level BETWEEN coverage_failures_as_misses_low AND coverage_failures_as_misses_high AS at_nominal_level,
       replicates, failures, failures / replicates AS undefined
FROM summary;

-- The shortest intervals among the cells that keep their level.
CREATE VIEW best AS
SELECT *, failures / replicates AS undefined,
       rank() OVER (PARTITION BY path, n, level, coordinate ORDER BY length_mean) AS place
FROM summary
WHERE coverage_failures_as_misses_high >= level AND method <> 'oracle';

-- The block exponent as a design knob: the best beta, everything else being equal.
CREATE VIEW best_beta AS
SELECT setting, {others},
       arg_min(beta, abs(coverage_failures_as_misses - level)) AS beta,
       min(abs(coverage_failures_as_misses - level)) AS distance
FROM summary
WHERE beta IS NOT NULL
GROUP BY ALL;

-- Where replicates are lost.
CREATE VIEW lost AS
SELECT setting, {cell}, status, count(*) AS replicates
FROM replicates JOIN paths USING (path)
WHERE status NOT IN ('ok', 'range_end')
GROUP BY ALL;

-- Running coverage, failures as misses: has the Monte Carlo error settled?
CREATE VIEW running_coverage AS
SELECT setting, {cell}, replicate,
       avg(coalesce(covered, false)::INTEGER) OVER w AS coverage, count(covered) OVER w AS finished
FROM replicates JOIN paths USING (path)
WINDOW w AS (PARTITION BY {cell} ORDER BY replicate ROWS UNBOUNDED PRECEDING);
