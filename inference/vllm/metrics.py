"""What a vLLM server says of itself at `/metrics`, as a small record."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trailforge.inference.vllm.process import fetch
from trailforge.schemas import ServerUnavailable

_SAMPLE = re.compile(r"(?P<name>vllm:\w+)(?:\{.*\})? (?P<value>\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?: \d+)?")
"""A line in Prometheus' text format. Label values are never read, so what stands between the braces does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmMetrics:
    """State of a server at one moment, and its counts since it started; summed over its engines."""

    running: int
    """Requests being answered."""
    waiting: int
    """Requests in its queue."""
    kv_cache_use: float
    """Share of the KV cache in use, 0 to 1; the fullest engine's."""
    prompt_tokens: int
    generation_tokens: int
    prefix_cache_queries: int
    """Prompt tokens looked for in the prefix cache; 0 when it is off."""
    prefix_cache_hits: int
    """Prompt tokens found there, whose computation was saved."""
    preemptions: int
    """Requests put back for want of room in the KV cache, and computed again."""

    @property
    def prefix_cache_hit_rate(self) -> float | None:
        """Share of the prompt tokens looked for that were found; None before the first."""
        return self.prefix_cache_hits / self.prefix_cache_queries if self.prefix_cache_queries else None

    def __str__(self) -> str:
        rate = self.prefix_cache_hit_rate
        return (
            f"{self.running} running, {self.waiting} waiting, KV cache {self.kv_cache_use:.0%}, "
            f"tokens {self.prompt_tokens:,} in and {self.generation_tokens:,} out, "
            f"prefix cache {'-' if rate is None else f'{rate:.0%}'}, {self.preemptions} preemptions"
        )


def parse_metrics(text: str) -> VllmMetrics:
    """The record in a reply of `/metrics`. Raises `ServerUnavailable` when a figure is missing: it is not vLLM's."""
    found: dict[str, list[float]] = {}
    for line in text.splitlines():
        if sample := _SAMPLE.fullmatch(line):
            found.setdefault(sample["name"], []).append(float(sample["value"]))

    def of(name: str) -> list[float]:
        if name not in found:
            raise ServerUnavailable(
                f"the metrics hold no {name}: not a vLLM server that we know, or its metrics are off"
            )
        return found[name]

    def total(name: str) -> int:
        return int(sum(of(name)))

    return VllmMetrics(
        running=total("vllm:num_requests_running"),
        waiting=total("vllm:num_requests_waiting"),
        kv_cache_use=max(of("vllm:kv_cache_usage_perc")),
        prompt_tokens=total("vllm:prompt_tokens_total"),
        generation_tokens=total("vllm:generation_tokens_total"),
        prefix_cache_queries=total("vllm:prefix_cache_queries_total"),
        prefix_cache_hits=total("vllm:prefix_cache_hits_total"),
        preemptions=total("vllm:num_preemptions_total"),
    )


def read_metrics(url: str, timeout_s: float = 5.0) -> VllmMetrics:
    """Ask a server; `url` without a path. Raises `ServerUnavailable` when nothing answers or it is not vLLM."""
    try:
        text = fetch(f"{url}/metrics", timeout_s=timeout_s).decode("utf-8", "replace")
    except OSError as error:
        raise ServerUnavailable(f"{url}/metrics does not answer ({error})") from error
    return parse_metrics(text)
