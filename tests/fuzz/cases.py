"""How inputs are made: mutated samples, rows of tokens, random bytes, and inputs aimed at quadratic time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

AIMED_BYTES = 100_000
_FILLERS = (b"\n", b"a", b"<", b"\\")
_MOST_BYTES = 20_000
_MOST_PAIRS = 100


def random_case(rng: random.Random, samples: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    """An input: in three of five a mutated sample, in one a row of tokens, in one bytes of any kind."""
    kind = rng.random()
    if kind < 0.6:
        return _mutated(rng, samples, tokens)
    if kind < 0.8:
        return b"".join(rng.choices(tokens, k=rng.randint(1, 60)))
    return rng.randbytes(rng.randint(0, 200))


def _mutated(rng: random.Random, samples: Sequence[bytes], tokens: Sequence[bytes]) -> bytes:
    case = bytearray(rng.choice(samples))
    for _ in range(rng.randint(1, 6)):
        start = rng.randint(0, len(case))
        end = min(len(case), start + int(rng.expovariate(1 / 20)))
        match rng.randrange(8):
            case 0:
                del case[start:end]
            case 1:
                case[start:start] = case[start:end] * rng.randint(1, 4)
            case 2:
                case[start:start] = rng.choice(tokens)
            case 3:
                case[start:end] = rng.choice(tokens)
            case 4:
                case[start:end] = rng.randbytes(rng.randint(1, 8))
            case 5:
                case[start:start] = rng.choice(tokens) * rng.randint(1, 200)
            case 6:
                other = rng.choice(samples)
                case[start:] = other[rng.randint(0, len(other)) :]
            case _:
                if start < len(case):
                    case[start] ^= 1 << rng.randrange(8)
    return bytes(case[:_MOST_BYTES])


def aimed_cases(
    samples: Sequence[bytes], tokens: Sequence[bytes], size: int = AIMED_BYTES, *, short: bool = False
) -> Iterator[bytes]:
    """Inputs of `size` bytes for which a parser that looks back, or looks for what never comes, takes quadratic time:

    a token over and over, and a long run of spaces behind one; without `short` also runs of other bytes, a token over
    and over in the middle of a sample, and two in turn.
    """
    for token in tokens:
        yield token * (size // len(token))
        yield token + b" " * size + b"x"
    if short:
        return
    for token in tokens:
        for sample in samples[:2]:
            middle = len(sample) // 2
            yield sample[:middle] + token * (size // len(token)) + sample[middle:]
        for filler in _FILLERS:
            yield token + filler * size + b"x"
            yield (token + filler * 3) * (size // (len(token) + 3))
    pairs = [first + second for first in tokens for second in tokens]
    for pair in random.Random(0).sample(pairs, min(len(pairs), _MOST_PAIRS)):
        yield pair * (size // len(pair))
