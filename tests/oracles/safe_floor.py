"""floor(x) of a power that may be an integer in exact arithmetic."""

from decimal import Decimal, localcontext

SNAP = Decimal("1e-9")
DIGITS = 60


def decimal_of(value):
    """Return the number a person typed: 0.51 means 51/100, not the nearest double."""
    return Decimal(str(value))


def safe_floor(value):
    """Floor of `value` >= 0; rounded first if within 1e-9 relative of an integer."""
    with localcontext() as context:
        context.prec = DIGITS
        nearest = value.to_integral_value()
        if abs(value - nearest) <= SNAP * abs(value):
            return int(nearest)
        return int(value)  # towards zero: the floor of a value >= 0


def floor_power(n, exponent):
    """Safe floor of n ** exponent, worked out to 60 decimal digits."""
    with localcontext() as context:
        context.prec = DIGITS
        power = Decimal(int(n)) ** decimal_of(exponent)
    return safe_floor(power)
