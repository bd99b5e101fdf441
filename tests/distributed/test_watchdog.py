"""The verdict on which rank is stuck; no network, no clock."""

from __future__ import annotations

import threading
import time

from gradwalk.distributed.watchdog import Beat, Peer, sample, verdict

NOW, LIMIT = 1000.0, 60.0


def peer(rank: int, meetings: int, waits: bool, still: float, **facts: float) -> Peer:
    beat = Beat(meetings, f"step {meetings}", f"train.py:{rank}: line", waits, 0)
    heard = NOW - facts.get("silent", 0.5)
    return Peer(rank, f"host{rank}", 100 + rank, beat, heard, NOW - still, bool(facts.get("done")))


def test_a_rank_in_user_code_holds_up_one_that_waits() -> None:
    found = verdict([peer(0, 5, True, 70), peer(1, 4, False, 71), peer(2, 5, True, 70)], NOW, LIMIT)
    first, second, *_ = found.splitlines()
    assert first == (
        "rank 1 (host host1, pid 101) has not advanced for 71 s: step 4, at train.py:1: line"
    )
    assert "rank 0 (host host0, pid 100), waiting for 70 s: step 5" in second


def test_the_same_number_of_meetings_is_decided_by_the_place() -> None:
    found = verdict([peer(0, 5, True, 70), peer(1, 5, False, 71)], NOW, LIMIT)
    assert found.startswith("rank 1")


def test_ranks_that_all_wait_are_all_named() -> None:
    found = verdict([peer(0, 5, True, 70), peer(1, 5, True, 71)], NOW, LIMIT)
    assert found.startswith("no rank advances") and "rank 0" in found and "rank 1" in found
    behind = verdict([peer(0, 5, True, 70), peer(1, 4, True, 71)], NOW, LIMIT)
    assert behind.startswith("rank 1 ")


def test_no_verdict_without_reason() -> None:
    for peers in (
        [peer(0, 5, True, 50), peer(1, 4, False, 500)],  # it has not waited long enough
        [peer(0, 5, True, 70), peer(1, 4, False, 1)],  # slow, but it works
        [peer(0, 5, True, 70), peer(1, 5, False, 1)],
        [peer(0, 5, False, 700), peer(1, 5, False, 700)],  # nobody waits: all are at a prompt
        [peer(0, 5, False, 700), peer(1, 5, True, 1, done=1)],
    ):
        assert verdict(peers, NOW, LIMIT) == ""


def test_a_silent_rank_is_named() -> None:
    found = verdict([peer(0, 5, True, 70), peer(1, 5, True, 70, silent=65.0)], NOW, LIMIT)
    assert found.startswith("rank 1 (host host1, pid 101) has sent no heartbeat for 65 s")


def test_a_rank_whose_program_ended_does_not_keep_others_waiting_long() -> None:
    found = verdict([peer(0, 6, True, 11), peer(1, 5, True, 12, done=1)], NOW, LIMIT)
    assert found.startswith("rank 1 (host host1, pid 101) has ended its program, and others wait")
    assert verdict([peer(0, 5, True, 11), peer(1, 5, True, 12, done=1)], NOW, LIMIT) == ""


def test_a_sample_has_the_line_of_the_main_thread() -> None:
    beats: list[Beat] = []
    stop = threading.Event()

    def take() -> None:
        while len(beats) < 50 and not stop.is_set():
            beats.append(sample(3, "step 3"))
            time.sleep(0.001)

    thread = threading.Thread(target=take)
    thread.start()
    total = 0
    while thread.is_alive():
        total += 1  # the line
    stop.set()
    thread.join()
    assert any("test_watchdog.py" in beat.line for beat in beats)
    assert {(beat.meetings, beat.last) for beat in beats} == {(3, "step 3")}


def test_a_beat_that_says_the_same_is_no_advance() -> None:
    one = peer(0, 5, True, 70)
    one.update(one.beat, NOW)
    assert one.moved == NOW - 70 and one.heard == NOW
    one.update(one.beat._replace(place=1), NOW)
    assert one.moved == NOW
