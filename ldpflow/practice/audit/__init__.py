"""Audits of privacy claims: lower bounds from simulated outputs on neighbouring inputs."""
