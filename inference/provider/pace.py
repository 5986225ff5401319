"""Learn from refused calls how many calls at a time, and how many a second, a server accepts; callers pass the time in
seconds on any clock.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

_START = 32
_CUT = 0.7
_CALM_CUT = 0.9
"""How far each cut lowers the size up to which a window grows fast: less than the window, which so comes back soon."""
_FEWEST_SLOTS, _MOST_TRIPS = 8, 64.0
"""Of fewer calls, the same number is under way by chance."""

_ENOUGH, _SHORT_S = 4, 0.5
"""Calls admitted between two refusals from which a rate is worth an estimate; in a shorter time than that, they came
out of the server's reserve, and tell nothing about its rate."""
_KEPT_BELOW, _FEW = 0.99, 0.05
"""Share of the estimated rate that is used; of calls of a spell, that are not many."""
_RATE_CUT, _DEEPEST_RATE_CUT = 0.95, 0.8
"""A refusal lowers a known rate by something between these: any one estimate may be wrong, in either direction."""
_RESERVE_USED = 0.7
"""Share of the server's reserve that is sent at once after a pause."""
_DOUBLINGS_PER_S = 2.0
_SURE_S, _UNSURE_S, _SUREST_S = 20.0, 6.0, 240.0
"""After so long without a refusal the pace has doubled, by how good the estimate was; longer with each that agrees."""
_LONGEST_GROWTH_S = 300.0
_REMEMBERED = 4096
"""Sendings of a spell."""


class CallWindow:
    """The number of calls that may be under way, which grows by addition and is cut by multiplication, at most once a
    round trip.

    A server that refuses again and again when the same number is under way has that many slots, and is not asked too
    fast. Then all of them are used, and one more is tried at growing intervals.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = float(min(_START, most))
        self._calm = math.inf
        """The size up to which it grows fast: somewhat below the one at which trouble began."""
        self._last_cut = -math.inf
        self._full = self._full_before = 0
        """How many others were under way at the last refusal, of those that belong together; and at the one before."""
        self.is_counted = False
        """The server has slots."""
        self._trips = 1.0
        """Round trips until one more is tried than it has."""

    @property
    def size(self) -> int:
        """Return the number of calls allowed at a time, at least 1."""
        return int(self._size)

    def grow(self) -> None:
        """Record a success: the window grows by one below the size at which trouble began, and by one each round trip
        above it."""
        step = 1.0 if self._size < self._calm and not self.is_counted else 1.0 / (self._size * self._trips)
        self._size = min(float(self._most), self._size + step)

    def cut(self, *, sent_at: float, now: float, others: int) -> bool:
        """Record that a call sent at `sent_at` was refused while `others` more calls were under way. Returns False when
        that adds nothing: the call was sent before the last cut, or only confirms the known number of slots."""
        if sent_at <= self._last_cut:
            self._full = min(self._full, others)
            return False
        slots, seen = sorted((self._full_before, self._full))
        self.is_counted = slots >= _FEWEST_SLOTS and min(others, slots) >= seen - 1
        self._full_before, self._full, self._last_cut = self._full, others, now
        if self.is_counted:
            self._size, self._trips = float(slots), min(_MOST_TRIPS, 2 * self._trips)
            return False
        self._trips = 1.0
        if self._size > 1:
            trouble = self._size if self._calm == math.inf else max(self._size, self._calm)
            self._size = max(1.0, self._size * _CUT)
            self._calm = max(self._size, trouble * _CALM_CUT)
        return True


@dataclass(slots=True)
class Spell:
    """The calls that were sent between two refusals, not counting pauses."""

    refused_before: float
    """Time of the refusal before this spell; infinitely early for the first spell."""
    began: float = math.nan
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    """Times of the last calls sent."""
    sent: int = 0
    refused: int = 0
    unwarned: float = 0.0
    """Number of calls sent before the first refusal was known: each of them may be refused, too."""

    @property
    def admitted(self) -> int:
        """Return the number of calls that the server accepted."""
        return self.sent - self.refused

    @property
    def seconds(self) -> float:
        """Return the seconds from the first call sent to the last."""
        return self.times[-1] - self.began if self.sent else 0.0

    def steepest(self, reserve: int, until: float) -> float:
        """Return the highest rate at which calls were accepted beyond a reserve (the size of a token bucket), from any
        moment up to `until`.

        A server with that reserve permits at least this rate, and no more if the reserve was full at that moment and
        empty then. The mean of the whole spell would be too low: where fewer calls were sent than permitted, the
        reserve ran over.
        """
        before = [at for at in self.times if at < until]
        spans = ((n - reserve, until - at) for n, at in enumerate(reversed(before), 1))
        return max((n / seconds for n, seconds in spans if n > 0 and seconds >= _SHORT_S), default=0.0)


class Pacer:
    """Spaces calls in time so that a server's rate limit is used but not exceeded.

    Nothing is spaced until a server refuses. The server is modelled as a token bucket: what went through at once before
    the first refusal was its reserve, what goes through beyond that is its rate. The estimate grows slowly, then
    faster, so that a limit that was raised or removed is noticed.
    """

    def __init__(self, now: float) -> None:
        self._spell = Spell(refused_before=now)
        self._ended: Spell | None = None
        self._rate = math.inf
        """Sends a second at the beginning of the spell."""
        self._searching = False
        """The rate doubles twice a second until the next refusal."""
        self._doubles_s = _SURE_S
        self._reserve = 0
        """Calls that the server took at once when it was rested."""
        self._rate_at_refusal = math.inf
        self._seen = 0.0
        """The rate that the spell which was refused has shown."""
        self._credit, self._credited_at = 0.0, now

    def ready_at(self, now: float) -> float:
        """Return the time at which the next call may be sent; `now` when it may be sent at once."""
        if self._ended is not None:
            self._learn(self._ended)
            self._ended = None
        if self._rate == math.inf:
            return now
        rate = self.rate(now)
        most = 2.0 if self._searching else max(2.0, _RESERVE_USED * self._reserve)
        self._credit = min(most, self._credit + rate * (now - self._credited_at))
        self._credited_at = now
        return now if self._credit >= 1 else now + (1 - self._credit) / rate

    def rate(self, now: float) -> float:
        """Return the calls a second that are allowed at present; infinite while no limit is known."""
        seconds = min(_LONGEST_GROWTH_S, now - self._spell.began) if self._spell.sent else 0.0
        if self._searching:
            return self._rate * 2 ** min(60.0, _DOUBLINGS_PER_S * seconds)
        return self._rate * (1.0 + (seconds / self._doubles_s) ** 3)

    def sent(self, now: float) -> Spell:
        """Record that a call was sent. Returns the spell to which its refusal, if one comes, belongs."""
        spell = self._spell
        if not spell.sent:
            spell.began = now
        spell.sent += 1
        spell.times.append(now)
        self._credit -= 1
        return spell

    def refused(self, now: float, spell: Spell, sent_at: float) -> None:
        """Record that a rate limit refused a call of this spell. The caller must then pause, in which the reserve
        fills.
        """
        spell.refused += 1
        if spell is self._spell:
            self._rate_at_refusal, self._seen = self.rate(now), spell.steepest(self._reserve, sent_at)
            spell.unwarned = min(spell.sent, self._rate_at_refusal * (now - sent_at))
            self._ended, self._spell = spell, Spell(refused_before=now)
            self._credit, self._credited_at = 0.0, now

    def _learn(self, spell: Spell) -> None:
        """Set the rate for the next spell from the one that a refusal ended."""
        if spell.admitted < _ENOUGH:
            self._rate, self._searching = math.inf, False
        elif self._rate == math.inf and spell.seconds < _SHORT_S:
            self._reserve = spell.admitted
            self._rate, self._searching = 2.0 * self._reserve, True
        elif spell.admitted < spell.refused:
            self._rate, self._searching = math.inf, False
        else:
            self._estimate(spell)

    def _estimate(self, spell: Spell) -> None:
        """What went through beyond the reserve; no less than what went through with the pause before it counted.

        Of a short spell, or one that ended in a heap of refusals (calls arrived together), the reserve is most. Then a
        known rate is lowered by little, and one that is sought is sought once more.
        """
        beyond, before = spell.admitted - self._reserve, self._rate
        is_sure = beyond >= self._reserve and spell.refused <= _FEW * spell.sent + spell.unwarned
        rate = _KEPT_BELOW * (self._seen or (beyond / spell.seconds if spell.seconds > 0 else math.inf))
        rate = min(rate, _RATE_CUT * self._rate_at_refusal)
        if not self._searching and self._rate < math.inf:
            rate = max(rate, self._rate * (_DEEPEST_RATE_CUT if is_sure else _RATE_CUT))
        with_pause = spell.times[-1] - spell.refused_before
        self._rate = max(rate, spell.admitted / with_pause) if with_pause > 0 else rate
        agrees = is_sure and not self._searching and _RATE_CUT * before <= self._rate
        self._searching = self._searching and not is_sure
        self._doubles_s = min(_SUREST_S, 2 * self._doubles_s) if agrees else _SURE_S if is_sure else _UNSURE_S
