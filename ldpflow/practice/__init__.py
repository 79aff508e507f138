"""Tools for a deployment: plans, intervals from collected reports, privacy pages and audits."""
