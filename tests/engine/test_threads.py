"""Threads take turns in Python and are no daemons; the engine that is chosen by expected time."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from mpmath import mp, mpf

from ldpflow.components.problems.logistic_regression import LogisticRegression
from ldpflow.engine import loop
from ldpflow.engine.prediction import RAY_FROM_SECONDS, RAY_SECONDS, busy_machine, choose_engine
from ldpflow.engine.run import run_study
from ldpflow.errors import InputError, SweepInterrupted
from ldpflow.numerics import constants
from ldpflow.options import SweepOptions
from ldpflow.simulators import trajectories
from ldpflow.simulators.rows import TURN, run_kernel, turn
from ldpflow.study import Study
from ldpflow.sweeps import run_sweep
from tests.engine.test_same_bits import ROOT, STUDY
from tests.faults.study import study


def in_threads(work, count):
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_python_takes_turns_and_kernels_do_not():
    inside, most, kernels = [], [], threading.Barrier(3)

    def python():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()

    def work(k):
        with turn():
            python()
            # All three must be here at the same time, or the barrier breaks.
            run_kernel(lambda: kernels.wait(timeout=60))
            python()

    in_threads(work, 3)
    assert max(most) == 1 and len(most) == 6 and not kernels.broken


def test_a_kernel_that_fails_leaves_the_turn_as_it_was():
    with turn(), pytest.raises(ZeroDivisionError):
        run_kernel(lambda: 1 / 0)
    assert not TURN.locked()


def test_other_threads_have_their_turn_while_losses_of_trajectories_are_computed(monkeypatch):
    held = []

    def kernel(*arguments):
        held.append(TURN.locked())

    monkeypatch.setattr(trajectories, "loss_gap_kernel", lambda problem: kernel)
    problem = LogisticRegression()
    with turn():
        trajectories.excess_loss(problem, np.zeros((1, problem.dimension, 3)))
        held.append(TURN.locked())
    assert held == [False, True]


def test_precision_is_that_of_the_thread():
    wrong = []

    def work(k):
        digits = 20 + 10 * k
        for _ in range(100):
            with constants.workdps(digits):
                time.sleep(0)
                if mp.dps != digits or abs(mpf(1) / 3 * 3 - 1) > mpf(10) ** (1 - digits):
                    wrong.append(digits)

    in_threads(work, 3)
    assert wrong == [] and mp.dps == 15


def test_memory_cannot_be_limited_where_it_cannot_be_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "PROCESSES", tmp_path)
    assert loop.memory_in_use() == 0
    with pytest.raises(InputError, match="max_memory"):
        loop.limits(max_bytes=10**9)
    assert loop.limits(max_seconds=100.0)() is None


@pytest.mark.parametrize(
    ("seconds", "cores", "python_seconds", "engine"),
    [
        (RAY_FROM_SECONDS * 1.1, 1, 0.0, "ray"),
        (RAY_FROM_SECONDS * 1.1, 2, 0.0, "threads"),
        (160.0, 16, RAY_SECONDS, "threads"),
        (160.0, 16, 60.0, "ray"),  # in Python threads take turns
        (80.0, 2, 40.0, "threads"),  # two cores are busy all the same
    ],
)
def test_engine_by_cpu_time(seconds, cores, python_seconds, engine):
    chosen, why = choose_engine(seconds, cores, python_seconds)
    assert chosen == engine and why.startswith(f"engine {engine}: about {seconds:.0f} s of computing")


def test_a_small_study_starts_no_ray_and_a_large_one_does(tmp_path, monkeypatch):
    class Started(Exception):
        pass

    def start(*arguments, **options):
        raise Started

    monkeypatch.setattr("ldpflow.engine.ray_executor.RayExecutor", start)
    said = []
    result = run_study(Study.from_mapping(STUDY), tmp_path / "small", on_engine=said.append)
    assert result.finished_replicates == 100 and not result.failed_batches
    # A thread that ends while the interpreter does could take the process down.
    assert not [thread for thread in threading.enumerate() if thread.name == "batches"]
    large = Study.from_mapping({**STUDY, "grid": {"n": [1e9], "level": [0.9]}, "replicates": 10_000})
    with pytest.raises(Started):
        run_study(large, tmp_path / "large", on_engine=said.append)
    # A third line says that a busy machine is busy.
    assert [text.partition(":")[0] for text in said[:2]] == ["engine threads", "engine ray"]


def test_an_address_is_for_ray():
    for engine in ("serial", "threads"):
        with pytest.raises(InputError, match="^address needs engine = ray or auto"):
            SweepOptions(engine=engine, address="auto")


def test_many_threads_need_addresses(tmp_path, monkeypatch):
    monkeypatch.setattr("ldpflow.engine.run.address_limit", lambda: 1.25 * 2**30)
    with pytest.raises(InputError, match=r"num_cpus: 8 .*at most 2 threads"):
        run_study(Study.from_mapping(STUDY), tmp_path / "run", engine="threads", num_cpus=8)


def test_a_busy_machine_is_said_where_workers_let_others_go_first(monkeypatch):
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr(os, "getloadavg", lambda: (5.0 * cores, 0.0, 0.0))
    assert f"load {5 * cores} on {cores} cores" in busy_machine(None)
    assert busy_machine(0) is None
    monkeypatch.setattr(os, "getloadavg", lambda: (0.5 * cores, 0.0, 0.0))
    assert busy_machine(None) is None


NICE = """
import os
import ray
from ldpflow.engine.ray_executor import RayExecutor
from ldpflow.options import SweepOptions

executor = RayExecutor(None, SweepOptions(num_cpus=1, nice=3, keep_ray=True))
print(ray.get(ray.remote(lambda: os.nice(0)).remote()))
executor.close()
print(ray.is_initialized())
"""


@pytest.mark.slow
def test_niceness_of_the_workers_and_a_ray_that_is_kept(tmp_path):
    done = subprocess.run([sys.executable, "-c", NICE], capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["3", "True"], done.stderr


SWEEPING = """
import faulthandler, sys, threading, time
faulthandler.dump_traceback_later(90, exit=True)  # where it hangs
from ldpflow.options import SweepOptions
from ldpflow.sweeps import run_sweep
from tests.faults.study import study

begun = threading.Event()

def work():
    for number in range(1000):
        run = f"{sys.argv[1]}/run-{number}"
        run_sweep(study(replicates=3200), run, SweepOptions("threads"), on_plan=lambda *plan: begun.set())

threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("tries", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_a_sweep_in_a_daemon_thread_does_not_abort_the_interpreter(tmp_path, tries):
    for attempt in range(tries):
        out = str(tmp_path / str(attempt))
        command = [sys.executable, "-c", SWEEPING, out, str(0.03 * attempt)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "terminate" not in done.stderr and "Fatal" not in done.stderr, done.stderr


def test_a_sweep_in_a_daemon_thread_stops_with_the_main_thread_and_starts_no_daemon(tmp_path, monkeypatch):
    main, started, outcomes, start = threading.Thread(), [], [], threading.Thread.start
    start(main)
    main.join()
    monkeypatch.setattr(threading, "main_thread", lambda: main)
    monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self), start(self)))

    def work():
        with pytest.raises(SweepInterrupted) as stopped:
            run_sweep(study(replicates=32), tmp_path / "run", SweepOptions("threads", num_cpus=2))
        outcomes.append(stopped.value.result.stopped)

    caller = threading.Thread(target=work, daemon=True)
    start(caller)
    caller.join()
    assert outcomes == ["the main thread has ended"]
    assert {"batches", "end of a sweep"} <= {thread.name for thread in started}
    for thread in started:
        thread.join()
    assert not any(thread.daemon for thread in started)
