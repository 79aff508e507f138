"""Known vectors in the place of a node's noise: k_tree (0.01 start, -0.02 end) (golden vectors)."""

from numba import njit

from ldpflow.numerics.streams import LANES


@njit(error_model="numpy")
def node_normals(out, keys, tree, level, index, scale):
    """Tree 0 is Algorithm 1's; 2, 3, 4 are Algorithm 2's G, Delta and r."""
    if scale == 0.0:
        out[:] = 0.0
        return
    start = (index << level) + 1
    end = (index + 1) << level
    k = 0.05 if tree == 0 else tree - 1.0
    for lane in range(LANES):
        out[lane] = k * 0.01 * start
        out[LANES + lane] = -k * 0.02 * end
