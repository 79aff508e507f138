"""Records in the order in which they lie, or turned by one place with every epoch (golden vectors)."""

from numba import njit

from ldpflow.numerics.streams import LANES


@njit(error_model="numpy")
def draw_order(order, state, epoch, count):
    """Epoch e visits e, e + 1, ... modulo count; in a fixed order only epoch 0 is asked for."""
    for i in range(count):
        for lane in range(LANES):
            order[i * LANES + lane] = (i + epoch) % count


@njit(error_model="numpy")
def draw_subset(order, state, planes, used, count, size):
    """The first ``size`` records, always."""
    return used
