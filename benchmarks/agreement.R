# Quantile regression by SGD with random scaling, from a file of users: prints {"version": ..., "beta":
# [...], "variance": [...]} with the diagonal of V.
#   Rscript agreement.R FILE TAU GAMMA C
# burn = 0: with its default of 1 the package leaves the first user out.

arguments <- commandArgs(trailingOnly = TRUE)
if (!requireNamespace("SGDinference", quietly = TRUE)) {
  message("the package SGDinference is not installed")
  quit(status = 1)
}
users <- read.csv(arguments[1], colClasses = "numeric")
fitted <- SGDinference::sgdi_qr(
  y ~ ., data = users, qt = as.numeric(arguments[2]), alpha = as.numeric(arguments[3]),
  gamma_0 = as.numeric(arguments[4]), burn = 0, bt_start = rep(0, ncol(users)), studentize = FALSE
)
text <- function(x) paste0("[", paste(sprintf("%.17g", as.numeric(x)), collapse = ", "), "]")
cat(sprintf(
  '{"version": "%s", "beta": %s, "variance": %s}\n',
  packageVersion("SGDinference"), text(fitted$coefficients), text(diag(fitted$V))
))
