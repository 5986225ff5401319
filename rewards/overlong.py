"""DAPO's soft punishment of overlong episodes (Yu et al., 2025, eq. 13), which is MSearcher's R_length."""

from __future__ import annotations


def soft_overlong(tokens: int, *, max_tokens: int, cache_tokens: int) -> float:
    """From 0 to -1 by length: 0 up to `max_tokens - cache_tokens`, from there falling evenly to -1 at `max_tokens`.

    `tokens` are those of everything after the prompt, observations too. Raises `ValueError` unless
    0 < cache_tokens <= max_tokens.
    """
    if not 0 < cache_tokens <= max_tokens:
        raise ValueError(f"cache_tokens: expected 1 to max_tokens = {max_tokens}, got {cache_tokens}")
    excess = tokens - (max_tokens - cache_tokens)
    return -min(max(excess, 0), cache_tokens) / cache_tokens
