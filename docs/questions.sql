-- Ten questions that people ask of a study, against a file of `ldpflow export RUN -o study.duckdb`:
--     duckdb study.duckdb < docs/questions.sql
-- `setting` and `series` name every factor that varies, so two different rows have different names.

-- 1. In which settings does each method hold its level (level_state)? Where are there too few replicates to say?
SELECT setting, series, n, level, coordinate, coverage_failures_as_misses, coverage_failures_as_misses_mcse,
       undefined, level_state FROM coverage ORDER BY ALL;

-- 2. Which method that holds its level has the shortest intervals? If no method holds it, the row has the
--    method that comes nearest, with its level_state.
SELECT setting, n, level, coordinate, series, level_state, length_mean, coverage_failures_as_misses, undefined
FROM best WHERE place = 1 ORDER BY ALL;

-- 3. Which block exponent is best for each budget and n? level_state says whether it holds its level.
SELECT * EXCLUDE (path) FROM best_beta ORDER BY ALL;

-- 4. What does privacy cost in length?
SELECT setting, series, n, level, coordinate, length_mean FROM summary ORDER BY n, series, level, coordinate, setting;

-- 5. How large is the bias of the estimate, in units of its standard error, and is it visible beyond noise?
SELECT DISTINCT setting, series, n, coordinate, bias / empirical_se AS standardised_bias,
       abs(bias) > 1.96 * bias_mcse AS visible FROM summary ORDER BY ALL;

-- 6. Are the methods' standard errors right?
SELECT setting, series, n, coordinate, relative_error_model_se, relative_error_model_se_mcse
FROM summary WHERE relative_error_model_se IS NOT NULL ORDER BY abs(relative_error_model_se) DESC;

-- 7. On which side do intervals miss?
SELECT setting, series, n, level, coordinate, lower_miss, upper_miss
FROM summary ORDER BY abs(lower_miss - upper_miss) DESC;

-- 8. Where are replicates lost, and why?
SELECT * FROM lost ORDER BY replicates DESC;

-- 9. How many replicates make the MCSE of coverage half a point?
SELECT setting, series, n, level, coordinate,
       ceil(coverage_failures_as_misses * (1 - coverage_failures_as_misses) / 0.005 ^ 2) AS replicates
FROM coverage ORDER BY replicates DESC;

-- 10. How was the run made?
SELECT started, command, seed, wall_seconds, machine ->> 'processor' AS processor, versions FROM sessions;
