# Peers in R: prints {"version": ..., "ns": [...]}, nanoseconds of CPU time per step.
#   Rscript peers.R loop|SGDinference STEPS REPETITIONS

arguments <- commandArgs(trailingOnly = TRUE)
what <- arguments[1]
n <- as.integer(arguments[2])
repetitions <- as.integer(arguments[3])

loop <- function(n, tau, epsilon, gamma, c) {
  p <- exp(epsilon) / (1 + exp(epsilon))
  x <- rnorm(n)
  u <- runif(n)
  theta <- 0
  total <- 0
  for (i in 1:n) {
    bit <- x[i] <= theta
    report <- if (u[i] < p) bit else !bit
    gradient <- (report - (1 - p)) / (2 * p - 1) - tau
    theta <- theta - c * i^(-gamma) * gradient
    total <- total + theta
  }
  total / n
}

if (what == "loop") {
  version <- paste(R.version$major, R.version$minor, sep = ".")
  loop <- compiler::cmpfun(loop)
  run <- function() loop(n, 0.5, 1, 0.51, 1)
} else {
  if (!requireNamespace("SGDinference", quietly = TRUE)) {
    message("the package SGDinference is not installed")
    quit(status = 1)
  }
  version <- as.character(packageVersion("SGDinference"))
  data <- data.frame(x = rnorm(n))
  data$y <- data$x + rnorm(n)
  run <- function() SGDinference::sgdi_qr(y ~ x, data = data, gamma_0 = 1, bt_start = rep(0, ncol(data)))
}

invisible(run())
ns <- replicate(repetitions, 1e9 * sum(system.time(run())[1:2]) / n)
cat(sprintf('{"version": "%s", "ns": [%s]}\n', version, paste(ns, collapse = ", ")))
