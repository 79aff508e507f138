-- Views of an exported study. Its tables are described in docs/tables.md.

-- Coverage beside its nominal level, with the question that everybody asks.
CREATE VIEW coverage AS
SELECT path, problem, mechanism, epsilon, algorithm, n, method, beta, B, level, coordinate,
       coverage, coverage_mcse, coverage_low, coverage_high, coverage - level AS deviation,
       level BETWEEN coverage_low AND coverage_high AS at_nominal_level,
       replicates, failures
FROM summary;

-- The shortest intervals among the cells that keep their level.
CREATE VIEW best AS
SELECT *, rank() OVER (PARTITION BY path, n, level, coordinate ORDER BY length_mean) AS place
FROM summary
WHERE coverage_high >= level AND method <> 'oracle';

-- The block exponent as a design knob: the best beta for every path and n.
CREATE VIEW best_beta AS
SELECT path, epsilon, n, level, coordinate,
       arg_min(beta, abs(coverage - level)) AS beta, min(abs(coverage - level)) AS distance
FROM summary
WHERE beta IS NOT NULL AND coverage IS NOT NULL
GROUP BY path, epsilon, n, level, coordinate;

-- Where replicates are lost.
CREATE VIEW lost AS
SELECT path, method, beta, n, level, coordinate, status, count(*) AS replicates
FROM replicates
WHERE status <> 'ok'
GROUP BY ALL;

-- Running coverage: has the Monte Carlo error settled?
CREATE VIEW running_coverage AS
SELECT path, n, method, beta, B, level, coordinate, replicate,
       avg(covered::INTEGER) OVER w AS coverage, count(covered) OVER w AS finished
FROM replicates
WINDOW w AS (
    PARTITION BY path, n, method, beta, B, multiplier, M, level, coordinate
    ORDER BY replicate ROWS UNBOUNDED PRECEDING
);
