"""LDP-SGD for several quantiles from one report per user: the whole path, user by user."""

import numpy as np


def report_of(cell, u, cells, eps):
    """Generalised randomised response from one uniform: the own cell, or one of those after it."""
    total = np.exp(eps) + cells - 1
    if u < np.exp(eps) / total:
        return cell
    others = [(cell + step) % cells for step in range(1, cells)]
    return others[min(int(u * total - np.exp(eps)), cells - 2)]


def private_step(report, taus, eps):
    """(1{report among the first q cells} - q q')/(p' - q') - tau_q."""
    cells = len(taus) + 1
    low = 1 / (np.exp(eps) + cells - 1)
    high = np.exp(eps) * low
    q = np.arange(1, cells)
    return ((report < q) - q * low) / (high - low) - np.array(taus)


def step_covariance(taus, eps):
    """Covariance of the private step at the quantiles, over the cells of the value and all reports."""
    cells = len(taus) + 1
    chances = np.full((cells, cells), 1 / (np.exp(eps) + cells - 1))
    np.fill_diagonal(chances, np.exp(eps) * chances[0, 0])
    reports = np.diff([0.0, *taus, 1.0]) @ chances
    steps = np.array([private_step(report, taus, eps) for report in range(cells)])
    return (steps.T * reports) @ steps


def path(values, uniforms, taus, eps, c, gamma, theta0, batch=1):
    """All iterates; the values of a batch meet the same iterates, whose steps are averaged.

    c and theta0 are numbers, or a vector of one for each quantile.
    """
    theta = np.zeros(len(taus)) + theta0
    iterates = []
    for i in range(1, len(values) // batch + 1):
        steps = []
        for user in range((i - 1) * batch, i * batch):
            cell = int(np.sum(values[user] > theta))
            report = report_of(cell, uniforms[user], len(taus) + 1, eps)
            steps.append(private_step(report, taus, eps))
        theta = np.sort(theta - c * i**-gamma * np.mean(steps, axis=0))
        iterates.append(theta)
    return np.array(iterates)


def path_of_reports(cdf, uniforms, taus, eps, c, gamma, theta0):
    """The same with the report drawn from its law given the iterates: cells in order of the line."""
    cells = len(taus) + 1
    low = 1 / (np.exp(eps) + cells - 1)
    high = np.exp(eps) * low
    theta = np.full(len(taus), float(theta0))
    iterates = []
    for i, u in enumerate(uniforms, 1):
        below = np.arange(1, cells) * low + cdf(theta) * (high - low)
        report = int(np.sum(u >= below))
        theta = np.sort(theta - c * i**-gamma * private_step(report, taus, eps))
        iterates.append(theta)
    return np.array(iterates)
