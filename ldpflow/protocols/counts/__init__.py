"""Kernels of the protocols: server-side counts drawn from their exact law, and what is made of them.

No user is simulated.
"""
