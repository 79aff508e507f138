# Rscript simsum.R runs/own: the measures of rsimsum from the rows of a run
library(arrow)
library(dplyr)
library(ggplot2)
library(rsimsum)

run <- commandArgs(trailingOnly = TRUE)[1]
paths <- read_parquet(file.path(run, "paths.parquet")) |> select(path, epsilon, law, tau)
rows <- open_dataset(file.path(run, "replicates")) |>
  select(path, n, method, level, truth, estimate, se, lower, upper, status) |>
  collect() |>
  inner_join(paths, by = "path") |>
  rename(limit_low = lower, limit_high = upper) # rsimsum uses the names lower and upper itself

without <- setdiff(rows$method, rows$method[!is.na(rows$se)])
message("left out, without a standard error: ", toString(without))
# An undefined interval can have an estimate: keep the rows that ldpflow's own measures are over.
measures <- rows |>
  filter(status %in% c("ok", "range_end"), !method %in% without) |>
  as.data.frame() |>
  simsum(
    estvarname = "estimate", se = "se", true = "truth", ci.limits = c("limit_low", "limit_high"),
    methodvar = "method", by = c("epsilon", "law", "tau", "n"), x = TRUE
  )
print(summary(measures, stats = c("bias", "empse", "cover")))
ggsave("coverage.png", autoplot(measures, type = "nlp", stats = "cover"))
