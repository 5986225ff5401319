"""Limits hold over all processes together, and what a lost one held is free again, or counted, within a lease."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from trailforge.inference import Caps, Prices, Request, Sampling, Usage
from trailforge.inference.request import Reply
from trailforge.inference.shared_limits import center as center_module
from trailforge.inference.shared_limits import link as link_module
from trailforge.inference.shared_limits.center import Center, Limits, Message
from trailforge.inference.shared_limits.link import LimitsLink, SharedBudget, SharedThrottle
from trailforge.inference.throttle import ThrottleConfig
from trailforge.schemas import BudgetExceeded, ClusterError, Stalled

URL = "http://a/v1"
LIMITS = Limits(
    urls=(URL,),
    throttle=ThrottleConfig(most=3, backoff_s=0.05, stall_s=60.0),
    caps=Caps(),
    prices=Prices(),
    spent=Usage(),
)


class Site:
    """A center, and processes that reach it on this loop, a moment later, unless they stand still or are not heard."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.center = Center(limits, self._carry)
        self.limits, self.links, self.still, self.mute = limits, dict[str, LimitsLink](), set[str](), set[str]()
        self.seen: Counter[str] = Counter()
        """Messages to the center, by what is asked."""

    def join(self, name: str) -> LimitsLink:
        """One more process."""
        self.links[name] = LimitsLink(self.limits, lambda messages: self._bring(name, messages))
        return self.links[name]

    def throttle(self, name: str, on_stall: Callable[[Stalled], None] = print) -> SharedThrottle:
        """Of a process."""
        return SharedThrottle(self.join(name), on_stall)

    def _bring(self, name: str, messages: list[Message]) -> None:
        self.seen.update(message["op"] for message in messages)
        if name not in self.still | self.mute:
            asyncio.get_running_loop().call_soon(self.center.handle, name, messages)

    def _carry(self, name: str, messages: list[Message]) -> None:
        if name not in self.still:
            asyncio.get_running_loop().call_soon(self.links[name].receive, messages)


def request(number: int) -> Request:
    return Request(model="m", prompt=f"question {number}", sampling=Sampling(max_tokens=10), seed=number)


def reply_to(asked: Request, tokens: int = 2) -> Reply:
    return Reply(text="x", finish_reason="stop", prompt_tokens=tokens, completion_tokens=tokens, key=asked.key)


async def settled(turns: int = 20) -> None:
    """All messages of this moment have come."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def test_no_more_calls_are_under_way_than_all_may_have_together() -> None:
    site, running, most = Site(), 0, 0
    throttles = [site.throttle(name) for name in "abcd"]

    async def call(number: int) -> None:
        nonlocal running, most
        throttle = throttles[number % 4]
        permit = await throttle.acquire()
        assert permit.lane.url == URL
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        throttle.replied(permit)

    await asyncio.gather(*(call(number) for number in range(60)))
    assert most == 3
    assert site.seen["acquire"] == site.seen["replied"] == 60


async def test_a_center_that_ends_leaves_nobody_behind_who_waits() -> None:
    """For leave to send, for leave to spend, or, of a process that is lost, for what became of a call."""
    before, site = asyncio.all_tasks(), Site(replace(LIMITS, caps=Caps(max_calls=9)))
    site.join("a").tell(op="reserve", id=1, key="kept", worst={"calls": 1})
    site.join("b").tell(op="reserve", id=1, key="lost", worst={"calls": 1})
    for number in range(5):
        site.links["a"].tell(op="acquire", id=2 + number, priority=0)
    await settled()
    site.center.lose("b")
    assert len(asyncio.all_tasks() - before) == 2 + 2
    site.center.close()
    await settled()
    assert asyncio.all_tasks() == before


async def test_what_one_learns_of_a_server_holds_for_all() -> None:
    """After a refusal with a pause nobody sends before it is over."""
    site = Site()
    one, other = site.throttle("a"), site.throttle("b")
    permit = await one.acquire()
    one.refused(permit, 0.2, "too many")
    await settled()
    began = asyncio.get_running_loop().time()
    later = await other.acquire()
    assert asyncio.get_running_loop().time() - began > 0.15
    site.links["b"].tell(op="beat", at=0.0)
    one.failed(await one.acquire(), "broken")
    other.replied(later)


async def test_the_most_urgent_call_of_all_is_first() -> None:
    site = Site()
    one, other = site.throttle("a"), site.throttle("b")
    held = [await one.acquire() for _ in range(3)]
    order: list[str] = []

    async def wait(throttle: SharedThrottle, priority: int, name: str) -> None:
        throttle.replied(await throttle.acquire(priority))
        order.append(name)

    waiting = [asyncio.create_task(wait(*each)) for each in ((one, 0, "late"), (other, 5, "urgent"))]
    await settled()
    for permit in held[:1]:
        one.replied(permit)
    await asyncio.gather(*waiting)
    assert order == ["urgent", "late"]


@pytest.mark.parametrize("turns", range(21))
@pytest.mark.parametrize("is_taken", [True, False])
async def test_who_does_not_want_a_call_any_more_gives_its_place_back(turns: int, *, is_taken: bool) -> None:
    """Whether it waits at the center, or the grant is on its way, or has just come."""
    site = Site(replace(LIMITS, throttle=replace(LIMITS.throttle, most=1)))
    one, other = site.throttle("a"), site.throttle("b")
    held = await one.acquire() if is_taken else None
    unwanted = asyncio.create_task(other.acquire())
    await settled(turns)
    if unwanted.done():
        other.dropped(unwanted.result())
    unwanted.cancel()
    await asyncio.wait([unwanted])
    await settled()
    if held is not None:
        one.replied(held)
    place = await asyncio.wait_for(one.acquire(), 10)
    waiting = asyncio.create_task(other.acquire())
    await settled()
    assert not waiting.done(), "it gave back a place that it did not have"
    one.dropped(place)
    other.dropped(await asyncio.wait_for(waiting, 10))


@pytest.mark.parametrize("turns", range(21))
async def test_who_does_not_want_to_spend_any_more_gives_it_back(turns: int) -> None:
    site = Site(replace(LIMITS, caps=Caps(max_calls=1)))
    one, other = SharedBudget(site.join("a")), SharedBudget(site.join("b"))
    unwanted = asyncio.create_task(_hold(one, request(1)))
    await settled(turns)
    unwanted.cancel()
    await asyncio.wait([unwanted])
    await asyncio.wait_for(_spend(other, request(2)), 10)
    assert unwanted.cancelled()
    with pytest.raises(BudgetExceeded):  # the one call of the cap is spent: it was given back once
        await _spend(one, request(3))


async def _hold(budget: SharedBudget, asked: Request) -> None:
    async with budget.reserved(asked):
        await asyncio.Event().wait()


async def test_a_lost_process_frees_its_calls_for_the_others() -> None:
    site = Site()
    lost, other = site.throttle("a"), site.throttle("b")
    for _ in range(3):
        await lost.acquire()
    waiting = asyncio.create_task(lost.acquire())
    await settled()
    site.still.add("a")
    site.center.lose("a")
    permits = [await asyncio.wait_for(other.acquire(), 10) for _ in range(3)]
    late = asyncio.create_task(other.acquire())
    await settled()
    assert not late.done() and not waiting.done(), "three are free, and what the lost one waited for is forgotten"
    for permit in permits:
        other.replied(permit)
    other.replied(await asyncio.wait_for(late, 10))
    waiting.cancel()


async def test_a_process_that_is_not_heard_of_for_a_lease_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(center_module, "LEASE_S", 0.2)
    site = Site()
    still, other = site.throttle("a"), site.throttle("b")
    for _ in range(3):
        await still.acquire()
    site.still.add("a")
    waiting, began = asyncio.create_task(other.acquire()), time.monotonic()
    async with asyncio.timeout(10):
        while not waiting.done():  # as each beat of any process looks for those who are lost
            site.links["b"].tell(op="beat", at=0.0)
            await asyncio.sleep(0.02)
    assert time.monotonic() - began >= 0.15, "it has its calls for the whole lease"
    other.replied(waiting.result())


async def test_calls_are_exact_over_all_processes() -> None:
    site = Site(replace(LIMITS, caps=Caps(max_calls=25), spent=Usage(calls=5)))
    budgets = [SharedBudget(site.join(name)) for name in "abc"]

    async def call(number: int) -> bool:
        try:
            async with budgets[number % 3].reserved(request(number)) as reservation:
                await asyncio.sleep(0.001)
                if number % 5:  # the others are not answered, and cost nothing
                    reservation.settle(reply_to(request(number)))
                return bool(number % 5)
        except BudgetExceeded as error:
            assert "the cap on calls is reached: 25 of 25 spent" in str(error)
            return False

    answered = await asyncio.gather(*(call(number) for number in range(60)))
    assert sum(answered) == 20


async def test_tokens_never_go_over_the_cap_and_use_what_is_given_back() -> None:
    """The worst case of a call is set aside; most turn out cheaper, and so more calls fit than by the worst case."""
    worst = 10 + 16 + len("question 0") // 2
    site = Site(replace(LIMITS, caps=Caps(max_tokens=3 * worst)))
    budgets = [SharedBudget(site.join(name)) for name in "ab"]
    spent = 0

    async def call(number: int) -> None:
        nonlocal spent
        async with budgets[number % 2].reserved(request(number)) as reservation:
            await asyncio.sleep(0.001)
            reservation.settle(reply_to(request(number)))
            spent += 4

    outcomes = await asyncio.gather(*(call(number) for number in range(40)), return_exceptions=True)
    assert {type(each) for each in outcomes} == {type(None), BudgetExceeded}
    assert 2 * worst < spent <= 3 * worst


@pytest.mark.parametrize("is_kept", [True, False])
async def test_what_a_lost_process_set_aside_waits_for_the_ledger(
    is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been kept just before, or be kept until the lease ends."""
    monkeypatch.setattr(center_module, "LEASE_S", 1.0)
    monkeypatch.setattr(link_module, "_BEAT_S", 0.05)
    site = Site(replace(LIMITS, caps=Caps(max_calls=1)))
    lost, other = SharedBudget(site.join("a")), SharedBudget(site.join("b"))
    async with lost.reserved(request(1)):
        site.still.add("a")
        site.center.lose("a")
        assert site.center.orphans() == []
        waiting = asyncio.create_task(_spend(other, request(2)))
        await asyncio.sleep(1.2)
        assert site.center.orphans() == [request(1).key] and not waiting.done()
        site.center.resolve({request(1).key: Usage(calls=1) if is_kept else None})
        if is_kept:
            with pytest.raises(BudgetExceeded):
                await waiting
        else:
            await waiting
        assert site.center.orphans() == []


async def _spend(budget: SharedBudget, asked: Request) -> None:
    async with budget.reserved(asked) as reservation:
        reservation.settle(reply_to(asked))


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 0.6 s at the center, of 0.5 s in a process."""
    monkeypatch.setattr(center_module, "LEASE_S", 0.6)
    monkeypatch.setattr(link_module, "LEASE_S", 0.6)
    monkeypatch.setattr(link_module, "_SPARE_S", 0.1)
    monkeypatch.setattr(link_module, "_BEAT_S", 0.02)


@pytest.mark.usefixtures("short_lease")
async def test_a_process_that_is_not_heard_keeps_no_reply_though_it_hears() -> None:
    """What comes from the center says nothing about what reaches it."""
    site = Site(replace(LIMITS, throttle=replace(LIMITS.throttle, most=1), caps=Caps(max_calls=9)))
    throttle, budget, other = site.throttle("a"), SharedBudget(site.links["a"]), site.throttle("b")
    taken = await other.acquire()
    async with budget.reserved(request(1)) as reservation:
        asking = asyncio.create_task(throttle.acquire())
        await settled()
        site.mute.add("a")
        await asyncio.sleep(0.45)
        other.replied(taken)
        await asyncio.wait_for(asking, 10)
        await asyncio.sleep(0.2)
        site.center.orphans()  # the center looks for those who are lost
        with pytest.raises(ClusterError, match="taken for lost"):
            reservation.settle(reply_to(request(1)))


@pytest.mark.usefixtures("short_lease")
@pytest.mark.parametrize("how", ["asks", "beats", "hears what was said before"])
async def test_a_process_that_was_lost_keeps_no_reply_when_it_is_back(how: str) -> None:
    """What it had set aside may have gone to others by then, so that the cap would not hold."""
    site = Site(replace(LIMITS, caps=Caps(max_calls=9)))
    link = site.join("a")
    throttle, budget = SharedThrottle(link, print), SharedBudget(link)
    async with budget.reserved(request(1)) as reservation:
        await settled()
        now = asyncio.get_running_loop().time()
        said_before: Message = {"op": "pong", "at": now, "lease": 0, "replied_ago": 0.0, "troubles": []}
        site.still.add("a")
        await asyncio.sleep(0.7)
        assert site.center.orphans() == [request(1).key]
        if how == "hears what was said before":
            link.receive([said_before])
        else:
            site.still.clear()
            if how == "asks":
                throttle.dropped(await asyncio.wait_for(throttle.acquire(), 10))
            else:
                await asyncio.sleep(0.1)
        with pytest.raises(ClusterError, match="taken for lost"):
            reservation.settle(reply_to(request(1)))
    site.still.clear()
    site.center.resolve({request(1).key: None})
    await asyncio.wait_for(_spend(budget, request(1)), 10)  # all is well from then on


@pytest.mark.usefixtures("short_lease")
@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_grant_that_was_read_too_late_is_not_used(*, is_lost: bool) -> None:
    """It lay there while this process stood still, and its work has gone to another one, which pays for it."""
    site = Site(replace(LIMITS, throttle=replace(LIMITS.throttle, most=1)))
    throttle, other = site.throttle("a"), site.throttle("b")
    taken = await other.acquire()
    waiting = asyncio.create_task(throttle.acquire())
    await settled()
    link = site.links["a"]
    assert link._beating is not None
    link._beating.cancel()
    site.still.add("a")
    await asyncio.sleep(0.55)
    if is_lost:
        site.center.lose("a")
    else:
        site.center._members["a"].heard_at += 60.0  # which our clock cannot know
    other.replied(taken)
    await settled()
    site.still.clear()
    link.receive([{"op": "granted", "id": 0, "lease": 0, "url": URL}])
    assert not link._asked[0].granted.done()
    link._beating = asyncio.create_task(link._beat())
    throttle.replied(await asyncio.wait_for(waiting, 10))
    other.replied(await asyncio.wait_for(other.acquire(), 10))


@pytest.mark.usefixtures("short_lease")
async def test_who_was_lost_and_is_back_is_granted_what_it_had_asked_for() -> None:
    """It stood still for longer than a lease, and no other fault came of it."""
    site = Site()
    back, other = site.throttle("a"), site.throttle("b")
    taken = [await other.acquire() for _ in range(3)]
    waiting = [asyncio.create_task(back.acquire()) for _ in range(2)]
    await settled()
    site.still.add("a")
    site.center.lose("a")
    site.still.clear()
    waiting.append(asyncio.create_task(back.acquire()))
    await asyncio.sleep(0.1)
    for permit in taken:
        other.replied(permit)
    for permit in await asyncio.wait_for(asyncio.gather(*waiting), 10):
        back.replied(permit)
    free = [await asyncio.wait_for(other.acquire(), 10) for _ in range(3)]
    late = asyncio.create_task(other.acquire())
    await settled()
    assert not late.done(), "what was asked for once more was granted twice"
    for permit in free:
        other.replied(permit)
    other.replied(await asyncio.wait_for(late, 10))


async def test_a_process_that_may_be_taken_for_lost_keeps_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(replace(LIMITS, caps=Caps(max_calls=9)))
    budget = SharedBudget(site.join("a"))
    async with budget.reserved(request(1)) as reservation:
        site.still.add("a")
        monkeypatch.setattr(link_module, "LEASE_S", 5.05)
        await asyncio.sleep(0.1)
        with pytest.raises(ClusterError, match="taken for lost"):
            reservation.settle(reply_to(request(1)))


async def test_who_hears_nothing_of_the_center_waits_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "LEASE_S", 5.05)
    monkeypatch.setattr(link_module, "_BEAT_S", 0.02)
    site = Site()
    site.still.add("a")
    with pytest.raises(ClusterError, match="nothing was heard of the scheduler"):
        await asyncio.wait_for(site.throttle("a").acquire(), 10)


async def test_an_end_is_told_to_all_who_wait() -> None:
    site = Site()
    throttle = site.throttle("a")
    held = [await throttle.acquire() for _ in range(3)]
    waiting = asyncio.create_task(throttle.acquire())
    await settled()
    throttle.end(BudgetExceeded("over"))
    for outcome in (waiting, throttle.acquire()):
        with pytest.raises(BudgetExceeded):
            await outcome
    for permit in held:
        throttle.replied(permit)


async def test_replies_to_others_show_that_nothing_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "_BEAT_S", 0.02)
    stalls: list[Stalled] = []
    site = Site(replace(LIMITS, throttle=ThrottleConfig(most=1, backoff_s=0.05, stall_s=0.3)))
    busy, waits = site.throttle("a", stalls.append), site.throttle("b", stalls.append)
    with busy.wanted(), waits.wanted():
        permit = await busy.acquire()
        waiting = asyncio.create_task(waits.acquire())
        for _ in range(12):
            urgent = asyncio.create_task(busy.acquire(priority=1))
            await asyncio.sleep(0.05)
            busy.replied(permit)
            permit = await urgent
        assert not stalls
        with pytest.raises(Stalled):
            await asyncio.wait_for(waiting, 10)
    assert stalls


async def test_who_leaves_says_so() -> None:
    site = Site()
    throttle = site.throttle("a")
    for _ in range(3):
        await throttle.acquire()
    other = site.throttle("b")
    waiting = asyncio.create_task(other.acquire())
    await settled()
    assert not waiting.done() and site.seen["leave"] == 0
    await site.links["a"].aclose()
    other.replied(await asyncio.wait_for(waiting, 10))
    assert site.seen["leave"] == 1
    unused: list[list[Message]] = []
    await LimitsLink(LIMITS, unused.append).aclose()
    assert unused == []
