"""examples/collect: reports survive crashes, each counts once, and the reports give an interval."""

import asyncio
import importlib
import signal
import sqlite3
import sys
from pathlib import Path
from unittest import mock

import pytest

from ldpflow import client
from ldpflow.documents import parse_toml
from ldpflow.practice.transcripts.analysis import analyse
from ldpflow.practice.transcripts.collection import read_settings
from ldpflow.study.reading import toml_text

FOLDER = Path(__file__).parents[2] / "examples" / "collect"
DESIGNS = sorted(file.stem for file in FOLDER.glob("designs/*.toml"))
FAST = ("cells", "rounds", "tree")


@pytest.fixture
def module(monkeypatch):
    """Function that imports a module of the example by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("collection", "server", "client", "load_test", "simulate"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module


def design(name, tmp_path, n, **algorithm):
    """File with a design of the example for n users."""
    settings = parse_toml((FOLDER / "designs" / f"{name}.toml").read_text(), "design", name) | {"n": n}
    if "algorithm" in settings:
        settings["algorithm"] |= algorithm
    file = tmp_path / f"{name}.toml"
    file.write_text(toml_text(settings))
    return file


@pytest.mark.system
def test_users_and_two_crashes(module, tmp_path):
    """2,000 users on a server that is killed twice: every report is stored once, and none is lost."""
    load_test = module("load_test")
    collector = load_test.Collector(design("haar", tmp_path, 2000), tmp_path)
    try:
        counted = load_test.simulate_users(collector, load_test.population(2000), kills=2, workers=8)
    finally:
        collector.stop(signal.SIGTERM)
    collection = module("collection").Collection(tmp_path / "reports.sqlite", tmp_path / "haar.toml")
    assert counted == collection.count == collection.export(tmp_path / "reports.csv") == 2000
    collection.close()
    found = analyse(tmp_path / "reports.csv", read_settings(tmp_path / "haar.toml"))
    assert found.users_compared and found.users == 2000 and found.oddities == []
    # The clients' randomness has no seed. The interval may miss the median, 78, by less than its length.
    lower, upper = found.reported(0)["lower"], found.reported(0)["upper"]
    assert lower - (upper - lower) < 78.0 < upper + (upper - lower)


def simulate(module, *arguments):
    with mock.patch.object(sys, "argv", ["simulate.py", *map(str, arguments)]):
        module("simulate").main()


def test_values_of_a_file(module, tmp_path):
    """Reports about a column of a file give an interval. A wrong column is named."""
    settings, reports, values = design("haar", tmp_path, 1500), tmp_path / "reports.csv", tmp_path / "own.csv"
    values.write_text("name,s\n" + "".join(f"a,{i}\n" for i in range(700)) + "b,\n")
    simulate(module, settings, reports, "--values", values, "--column", "s", "--users", 1500)
    found = analyse(reports, read_settings(settings) | {"level": 0.9999})
    assert found.users == 1500 and found.reported()["lower"] < 350 < found.reported()["upper"]
    for column, words in (("t", "no column t, but name, s"), ("name", "own.csv, name")):
        with pytest.raises(SystemExit, match=words):
            simulate(module, settings, reports, "--values", values, "--column", column)


def test_a_design_of_another_column_or_none(module, tmp_path, capsys):
    """A warning says that the made-up values are about another column. Bad files are one message."""
    own = tmp_path / "own.toml"
    settings = parse_toml((FOLDER / "designs" / "grr.toml").read_text(), "design", "grr")
    settings["problem"]["column"] = "wait_min"
    own.write_text(toml_text({"name": "own", "grid": {"n": settings.pop("n")}} | settings))
    simulate(module, own, tmp_path / "reports.csv", "--users", 50)
    printed = capsys.readouterr()
    assert "about 'wait_min': --values FILE.csv --column wait_min" in printed.err
    assert "50 reports; the design plans 200,000 users" in printed.out
    for files, words in (([tmp_path / "none.toml", "r.csv"], "none.toml"), ([own], "two files")):
        with pytest.raises(SystemExit) as stopped:
            simulate(module, *files)
        assert stopped.value.code == 2 and words in capsys.readouterr().err


def take_part(collection, device, value):
    """Ticket, signature and report of one user."""
    asked = collection.question()
    report = device(value, 8.0).report(asked["function"], asked["parameters"])
    return asked["ticket"], asked["mac"], report


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in DESIGNS]
)
def test_every_design_from_the_question_to_the_interval(module, tmp_path, name):
    """1,200 users and a restart in the middle: analyse finds that the questions follow from the reports."""
    settings = design(name, tmp_path, 1200, batch_size=12)
    values = module("load_test").population(1200)
    Collection, Device = module("collection").Collection, module("client").Device
    for first in (0, 700):
        collection = Collection(tmp_path / "reports.sqlite", settings)
        assert collection.count == first
        left = values[first : first + (700 if first == 0 else 500)]
        while left and any(collection.state.needed):
            size = 1 if name == "rounds" else sum(collection.state.needed)
            asked = [take_part(collection, Device, value) for value in left[:size]]
            assert collection.add(asked) == [True] * len(asked)
            left = left[size:]
        count = collection.export(tmp_path / "reports.csv")
        collection.close()
    assert 1190 <= count <= 1200
    found = analyse(tmp_path / "reports.csv", read_settings(settings) | {"n": count})
    assert found.users == count and found.oddities == [] and found.rows[0]["estimate"] is not None


@pytest.fixture
def begin(module, tmp_path):
    """Function that begins a collection of a design."""
    begun = []

    def begin(name, n, **algorithm):
        settings = design(name, tmp_path, n, **algorithm)
        begun.append(module("collection").Collection(tmp_path / f"{name}.sqlite", settings))
        return begun[-1]

    yield begin
    for collection in begun:
        collection.close()


@pytest.fixture
def begun(begin):
    return begin("rr_sgd", 100, batch_size=1)


def refuses(module, collection, *wrong):
    """Whether the collection refuses all these reports."""
    asked = collection.question()
    results = collection.add([(asked["ticket"], asked["mac"], report) for report in wrong])
    return all(isinstance(result, module("collection").Refused) for result in results)


def test_reports_that_no_device_makes(module, begin):
    wrong = {"haar": [2], "grr": [16, "1"], "oue": ["01", "2" * 64], "tree": ["0" * 5], "rounds": [0.5]}
    for name, reports in wrong.items():
        collection = begin(name, 1200)
        assert refuses(module, collection, *reports) and collection.count == 0


def test_what_does_not_count(module, begun):
    Refused = module("collection").Refused
    first, late = (take_part(begun, module("client").Device, 50.0) for _ in range(2))
    ticket, mac, report = first
    assert begun.add([first, first]) == [True, False] and begun.add([first]) == [False]
    forged = [
        (ticket | {"round": 2}, mac, report),
        (ticket | {"user": "a"}, mac, report),
        ("x", mac, report),
        late,
    ]
    assert all(isinstance(result, Refused) for result in begun.add(forged))
    assert refuses(module, begun, 2, -1, "1", 0.5, None, True)
    assert begun.count == 1 and begun.state.round == 2


def test_a_full_disk_counts_nothing_and_the_report_may_come_again(module, begun):
    server = module("server").Server(begun)
    _, asked = server.ask()
    said = {"ticket": asked["ticket"], "mac": asked["mac"], "report": 1}

    def full(*arguments):
        raise sqlite3.OperationalError("database or disk is full")

    with mock.patch.object(begun, "insert", full):
        code, answer = asyncio.run(server.report(said))
    assert code == 503 and "full" in answer["error"] and begun.count == 0
    assert asyncio.run(server.report(said)) == (200, {"counted": True, "new": True})
    assert asyncio.run(server.report(said)) == (200, {"counted": True, "new": False})
    assert server.ask()[1]["ticket"]["round"] == 2


def test_as_many_users_are_asked_as_a_round_needs(module, begun, monkeypatch):
    server = module("server").Server(begun)
    assert server.ask()[0] == 200 and server.ask()[0] == 503
    monkeypatch.setattr(module("server").time, "monotonic", lambda: 1e9)
    assert server.ask()[0] == 200  # the first user did not answer in time


def test_a_step_that_is_not_complete_is_left_out(module, begin, tmp_path):
    collection = begin("cells", 100, batch_size=10)
    for value in range(27):
        collection.add([take_part(collection, module("client").Device, float(value))])
    assert collection.export(tmp_path / "r.csv") == 20
    assert len((tmp_path / "r.csv").read_text().splitlines()) == 21


def test_another_design_and_a_second_collector(module, tmp_path, begun, monkeypatch):
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda file, timeout, **more: connect(file, timeout=0.0, **more))
    Collection = module("collection").Collection
    with pytest.raises(SystemExit, match="another collector"):
        Collection(tmp_path / "rr_sgd.sqlite", tmp_path / "rr_sgd.toml")
    begun.close()
    with pytest.raises(SystemExit, match="another design"):
        Collection(tmp_path / "rr_sgd.sqlite", design("rr_sgd", tmp_path, 200))


def test_requests_that_cannot_be_right(module, begun):
    async def ask(text):
        server = await asyncio.start_server(module("server").Server(begun).serve, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(text.encode())
            writer.write_eof()
            return (await asyncio.wait_for(reader.read(), 20)).decode()

    for body in ("{", "[]", '{"ticket": {}}', "null"):
        text = f"POST /report HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        assert asyncio.run(ask(text)).startswith("HTTP/1.1 400")
    missing = asyncio.run(ask("POST /nothing HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"))
    assert missing.startswith("HTTP/1.1 404")
    for text in ("POST /ask HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n", "\x00" * 99, "GET / HTTP/1.1\r\n"):
        assert asyncio.run(ask(text)) == ""
    assert '"reports": 0' in asyncio.run(ask("GET /state HTTP/1.1\r\n\r\n"))


def test_a_device_sends_the_same_report_again(module):
    client = module("client")
    asked = {"ticket": {}, "mac": "m", "function": "rr_sgd", "parameters": {"theta": 0.0, "epsilon": 1.0}}
    connection = mock.Mock()
    connection.request.side_effect = [None, ConnectionResetError, ConnectionResetError, None]
    connection.getresponse.return_value.status = 200
    connection.getresponse.return_value.read.return_value = module("json").dumps(asked).encode()
    assert client.Device(1.0, 1.0).take_part(connection)
    sent = [call.args[1:3] for call in connection.request.call_args_list]
    assert [path for path, _ in sent] == ["/ask", "/report", "/report", "/report"]
    assert len({body for _, body in sent[1:]}) == 1


def test_a_device_keeps_to_its_budget(module):
    for function, parameters, words in (
        ("rr_sgd", {"theta": 0.0, "epsilon": 3.0}, "at most 1"),
        ("gaussian", {"theta": 0.0, "tau": 0.5, "mu": 3.0, "clip": 0.5}, "at most 1"),
        ("rr_sgd", {"theta": 0.0, "epsilon": -1.0}, "budget"),
        ("odds", {"epsilon": 1.0}, "does not have"),
    ):
        with pytest.raises(ValueError, match=words):
            module("client").Device(0.0, 1.0).report(function, parameters)


def test_there_is_a_design_for_every_client():
    assert set(DESIGNS) == client.REPORTS.keys()
