"""Processes that speak to each other through the hub: here several in one, without JAX."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gradwalk.distributed.channel import ProcessChannel
from gradwalk.distributed.hub import Hub
from gradwalk.distributed.launch import Launch, LaunchError

LONG = 60.0  # seconds; only a broken channel waits so long


class Job:
    """Some ranks that live in this process."""

    def __init__(self, size: int, timeout: float = LONG) -> None:
        self.size, self.timeout = size, timeout
        self.port = free_port()
        self.hub = Hub(self.launch(0), timeout)
        self.ends: dict[int, str] = {}
        self.ended = threading.Semaphore(0)
        self.channels: list[ProcessChannel] = []

    def launch(self, rank: int, size: int | None = None) -> Launch:
        return Launch("127.0.0.1", self.port, size or self.size, rank, None, None, "")

    def channel(self, rank: int, size: int | None = None, versions: str = "v1") -> ProcessChannel:
        def end(text: str) -> None:
            self.ends[rank] = text
            self.ended.release()

        made = ProcessChannel(self.launch(rank, size), versions, self.timeout, end)
        self.channels.append(made)
        return made

    def start(self) -> list[ProcessChannel]:
        made = [self.channel(rank) for rank in range(self.size)]
        for channel in made:
            assert channel.join()["hosts"] == [socket.gethostname()] * self.size
        return made


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def job() -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def make(*args: Any) -> Job:
        made.append(Job(*args))
        return made[-1]

    yield make
    for one in made:
        for channel in one.channels:
            channel.close()


def together(*calls: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(LONG) for future in [pool.submit(call) for call in calls]]


def test_values_are_gathered_in_order(job: Any) -> None:
    a, b, c = job(3).start()
    for number in range(3):
        calls = [
            lambda one=one, value=[n, number]: one.gather("x", value)
            for n, one in enumerate((a, b, c))
        ]
        assert together(*calls) == [[[0, number], [1, number], [2, number]]] * 3


def test_ranks_at_different_places_hear_of_it(job: Any) -> None:
    a, b, c = job(3).start()

    def meet(channel: ProcessChannel, label: str) -> str:
        with pytest.raises(RuntimeError, match="ranks meet at different places") as error:
            channel.gather(label, None)
        return str(error.value)

    said = together(
        *(
            lambda one=one, at=at: meet(one, at)
            for one, at in ((a, "save"), (b, "load"), (c, "save"))
        )
    )
    assert len(set(said)) == 1 and "at save" in said[0] and "at load" in said[0]


def test_a_failure_is_told_to_the_others(job: Any) -> None:
    one = job(3)
    channels = one.start()
    channels[1].fail("ValueError: boom")
    for _ in range(2):
        assert one.ended.acquire(timeout=LONG)
    assert set(one.ends) == {0, 2}
    assert all(
        "rank 1 (host" in t and t.endswith("failed: ValueError: boom") for t in one.ends.values()
    )


def test_a_death_is_told_to_the_others(job: Any) -> None:
    one = job(2)
    _, b = one.start()
    b.step()
    b.socket.shutdown(socket.SHUT_RDWR)  # as the system does for a dead process
    while 0 not in one.ends:
        assert one.ended.acquire(timeout=LONG)
    assert "rank 1 (host" in one.ends[0] and "died without a message" in one.ends[0]


def test_all_finish(job: Any) -> None:
    one = job(2)
    a, b = one.start()
    together(a.finish, b.finish)
    b.close()
    one.hub.wait_until_left(LONG)
    assert one.hub.empty.is_set() and not one.ends


@pytest.mark.parametrize(
    "other, complaint",
    [
        ({"rank": 0}, r"rank 0 \(host .*\) and rank 0 \(host .*\) have the same rank"),
        ({"rank": 1, "size": 4}, "started as one of 4 processes, rank 0 as one of 2"),
        ({"rank": 1, "versions": "v2"}, "runs v2, others v1"),
    ],
)
def test_who_does_not_belong_is_named_to_all(job: Any, other: Any, complaint: str) -> None:
    one = job(2)
    first = one.channel(0)
    while 0 not in one.hub.peers:
        pass
    second = one.channel(**other)
    for channel in (first, second):
        with pytest.raises(LaunchError, match=complaint):
            channel.join()


def test_ranks_that_do_not_come_are_named(job: Any) -> None:
    one = job(4, 1.5)
    channels = [one.channel(0), one.channel(2)]
    for channel in channels:
        with pytest.raises(LaunchError, match=r"2 of 4 processes have not joined.*rank 1, 3"):
            channel.join()


def test_rank_0_that_does_not_come_is_named() -> None:
    with pytest.raises(LaunchError, match=r"rank 1 cannot reach rank 0 at 127.0.0.1:\d+ within"):
        ProcessChannel(Launch("127.0.0.1", free_port(), 2, 1, None, None, ""), "v1", 0.3, print)


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LaunchError, match=f"cannot listen at port {port}(.|\n)*MASTER_PORT"):
            Hub(Launch("127.0.0.1", port, 2, 0, None, None, ""), LONG)


def test_strangers_are_ignored(job: Any) -> None:
    one = job(2)
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff", b"\x02\0\0\0[]", b"\x02\0\0\0{}"):
        with socket.create_connection(("127.0.0.1", one.port)) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
    a, b = one.start()
    assert together(lambda: a.gather("x", 1), lambda: b.gather("x", 2)) == [[1, 2]] * 2
