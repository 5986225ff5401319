"""The bound on calls: how many, in which order, and what a cancelled waiter leaves."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from trailforge.inference.threads import Slots


async def serve(slots: Slots, name: int, priority: int, done: list[int], most: list[int]) -> None:
    async with slots.taken(priority):
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0)
        most[0] -= 1
        done.append(name)


@given(st.integers(1, 4), st.lists(st.integers(-3, 3), max_size=20))
def test_never_more_than_the_bound_and_all_are_served(number: int, priorities: list[int]) -> None:
    async def run() -> tuple[list[int], int]:
        slots, done, most = Slots(number), list[int](), [0, 0]
        await asyncio.gather(*(serve(slots, i, p, done, most) for i, p in enumerate(priorities)))
        return done, most[1]

    done, most = asyncio.run(run())
    assert sorted(done) == list(range(len(priorities)))
    assert most <= number


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_a_slot_goes_to_the_highest_priority_and_then_to_the_oldest(priorities: list[int]) -> None:
    async def run() -> list[int]:
        slots, done, most = Slots(1), list[int](), [0, 0]
        async with slots.taken():
            waiting = [asyncio.create_task(serve(slots, i, p, done, most)) for i, p in enumerate(priorities)]
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        return done

    assert asyncio.run(run()) == sorted(range(len(priorities)), key=lambda i: (-priorities[i], i))


async def test_a_cancelled_waiter_gives_its_turn_on() -> None:
    slots, done, most = Slots(1), list[int](), [0, 0]
    async with slots.taken():
        waiting = [asyncio.create_task(serve(slots, i, 0, done, most)) for i in range(4)]
        await asyncio.sleep(0)
        waiting[1].cancel()
    waiting[0].cancel()  # its turn has come, but it has not run yet
    await asyncio.gather(*waiting, return_exceptions=True)
    assert done == [2, 3]
    async with asyncio.timeout(60), slots.taken():
        pass
