"""What a deployment needs: a plan, intervals from collected reports, the privacy page and audits."""
