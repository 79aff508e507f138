"""Kernels of the protocols: server-side counts drawn from their exact law, and what is made of them.

No user is simulated. Every ``draw`` has the arguments (values, key0, key1, honest, liars, design,
budget): it fills ``values`` with F^ at the inner edges and returns how many questions went unasked.
Every ``spread`` has (out, isotonic, tau, design, budget): the variance of F^ at the inner edges per
user, were the distribution function tau there.
"""
