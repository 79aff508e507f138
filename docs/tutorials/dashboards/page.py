"""A page with a picker: streamlit run page.py -- runs/own"""

import sys

import altair as alt
import streamlit as st

import ldpflow as lf


@st.cache_data
def read(run):
    return lf.open_run(run).summary().to_pandas()


summary = read(sys.argv[1] if len(sys.argv) > 1 else "runs/own")
st.title("Coverage")
for name in ("epsilon", "law", "tau"):
    values = sorted(summary[name].unique())
    chosen = st.sidebar.multiselect(name, values, default=values)
    summary = summary[summary[name].isin(chosen)]
st.caption(f"{len(summary)} cells, replicates without an interval counted as misses")
share = alt.Y("coverage_failures_as_misses").title("coverage").scale(zero=False)
chart = (
    alt.Chart(summary).mark_point().encode(alt.X("n").scale(type="log"), share, color="method", column="law")
)
st.altair_chart(chart)
st.dataframe(summary[["epsilon", "law", "tau", "n", "method", "coverage", "coverage_mcse", "length_mean"]])
