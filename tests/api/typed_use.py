"""The Python interface as users write it, for a type checker; never run."""

import pyarrow as pa

import ldpflow as lf

study: lf.Study = lf.Study(
    problem=lf.Quantile(tau=[0.5, 0.9]),
    mechanism=lf.RandomizedResponse(epsilon=[0.5, 1.0]),
    algorithm=lf.LdpSgd(gamma=0.51),
    methods=[lf.BlockBootstrap(beta=[0.65, 0.75]), lf.SelfNormalization(), lf.TranscriptRegression()],
    n=[1e5, 1e6],
    replicates=500,
    seed=1,
    name="mine",
)
study = lf.Study.load("paper-table1").replace(n=[1e6])
run: lf.Run = lf.sweep(study, "runs/mine", executor="serial", target_mcse=0.01, progress=True)
table: pa.Table = run.summary(where="method == 'BB' and n == 1000000")
rows: pa.Table = run.rows(method="BB", n=1_000_000)
passed: bool = run.verify("dette-graw").passed and run.check().passed
equal: bool = run.replay(path="p0123456789abcdef", replicate=17).equal
place: str = run.report("report.html")
level: float = lf.Quantile(tau=0.9).tau
lf.sweep(study, executor="thread")  # type: ignore[arg-type]
unknown = lf.LdpSgd(gama=0.51)  # type: ignore[call-arg]
predicted: lf.Plan = lf.plan("quickstart", half_width=0.1)
lf.Quantile(law="norml")  # type: ignore[arg-type]
lf.Quantile(law=["normal", "laplace"])
run.plot("covrage")  # type: ignore[arg-type]
run.plot("coverage", rows=["law", "tau"])
record = lf.simulate(study.simulators()[0], seed=1, replicates=range(32), n=[1e4])
