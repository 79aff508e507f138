"""Kernels that are compiled by other processes while this one compiles."""

from __future__ import annotations

import os
import threading
import time

import pytest

from ldpflow.engine.preparing import Preparation
from ldpflow.kernels import cache
from ldpflow.problems.quantile import Quantile
from ldpflow.simulators.batch import Batch
from ldpflow.study import Study


def batches(laws=("normal", "laplace"), tau=0.5):
    """A batch per law."""
    study = Study.from_mapping(
        {
            "name": "kernels",
            "seed": 1,
            "replicates": 32,
            "problem": {"kind": "quantile", "law": list(laws), "tau": tau},
            "mechanism": {"kind": "randomized_response", "epsilon": 1.0},
            "algorithm": {"kind": "ldp_sgd"},
            "grid": {"n": [1000], "level": [0.9]},
            "method": {"kind": "BM"},
        }
    )
    return [Batch(plan.simulator, 1, 0, 32, tuple(plan.cells)) for plan in study.plans()]


class Noted:
    """A simulator that notes which process prepares it."""

    def __init__(self, file):
        self.file = file

    def needs(self, cells, checkpoints):
        return None

    def prepare(self, request):
        if self.file is None:
            os._exit(1)
        self.file.write_text(str(os.getpid()))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache of this test alone."""
    monkeypatch.setenv("LDPFLOW_CACHE_DIR", str(tmp_path / "cache"))
    cache.cache_folder.cache_clear()
    yield tmp_path / "cache" / "kernels"
    cache.cache_folder.cache_clear()


@pytest.fixture
def preparation(monkeypatch):
    """One whose process is compiling."""
    monkeypatch.setitem(cache.counts, "compiling", 1)
    found = Preparation()
    found.preparing = 1
    yield found
    found.stop()


def test_another_process_leaves_kernels_in_the_cache_one_after_the_other(folder, preparation):
    (batch,) = batches(["normal"])
    before = dict(cache.counts)
    preparation.prepare(batch)
    assert len(list(folder.glob("*.bin"))) == 1
    (process,) = preparation.idle
    preparation.prepare(Batch(Noted(folder / "second"), 1, 0, 32, ()))
    assert (folder / "second").read_text() == str(process.pid)
    assert preparation.idle == [process] and not preparation.working
    assert cache.counts == before, "this process compiled nothing"
    preparation.stop()
    assert process.returncode is not None


class Warm:
    """A simulator whose kernel is in the cache."""

    def __init__(self):
        self.begun, self.go = threading.Event(), threading.Event()
        self.prepared_by = None

    def needs(self, cells, checkpoints):
        return None

    def prepare(self, request):
        self.begun.set()
        self.go.wait()
        self.prepared_by = threading.current_thread().name


def test_kernels_that_are_in_the_cache_are_loaded_by_this_process():
    preparation = Preparation()
    simulators = [Warm(), Warm()]
    threads = [
        threading.Thread(target=preparation.prepare, args=(Batch(simulator, 1, 0, 32, ()),), name=f"{k}")
        for k, simulator in enumerate(simulators)
    ]
    threads[0].start()
    simulators[0].begun.wait()
    threads[1].start()
    assert not simulators[1].begun.wait(0.1), "it waits until the first is loaded"
    for simulator in simulators:
        simulator.go.set()
    for thread in threads:
        thread.join()
    assert [simulator.prepared_by for simulator in simulators] == ["0", "1"]
    assert not preparation.idle and not preparation.preparing


def test_a_class_that_no_other_process_knows_is_left_to_this_one(folder, preparation):
    class OfAScript(Quantile):
        pass

    preparation.compile_elsewhere(OfAScript(law="normal", tau=0.5))
    assert not preparation.idle, "it cannot be sent"


def test_a_process_that_dies_is_not_asked_again(tmp_path, preparation):
    preparation.prepare(Batch(Noted(None), 1, 0, 32, ()))
    assert not preparation.idle and not preparation.working
    assert preparation.compiling() == 1
    preparation.prepare(Batch(Noted(tmp_path / "next"), 1, 0, 32, ()))
    assert (tmp_path / "next").read_text() == str(preparation.idle[0].pid)


def test_where_no_process_can_be_started_none_is_waited_for(preparation, monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    (batch,) = batches(["normal"])
    preparation.prepare(batch)
    assert not preparation.idle and not preparation.working


def test_a_stop_ends_a_process_that_compiles(folder, preparation):
    batch, _ = batches()
    waiting = threading.Thread(target=preparation.prepare, args=(batch,))
    waiting.start()
    while not preparation.working:
        time.sleep(0.01)
    assert preparation.compiling() == 2
    preparation.stop()
    waiting.join()
    assert not preparation.idle and not list(folder.glob("*.bin"))
    preparation.prepare(batch)
    assert not preparation.idle, "none is started after a stop"


def test_only_the_first_batch_of_a_kernel_is_prepared():
    preparation = Preparation()
    normal, laplace = batches()
    (other,) = batches(["normal"], tau=0.9)
    assert [preparation.needed(b) for b in (normal, normal, laplace, other)] == [True, False, True, False]
