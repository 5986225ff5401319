"""vLLM's own figures: summed over engines, told from their look-alikes, and missed when they are missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.inference.vllm.server import VllmConfig, VllmMetrics, VllmServer, parse_metrics
from trailforge.schemas import ServerUnavailable

SAMPLE = (Path(__file__).parents[1] / "support" / "vllm_metrics.txt").read_text(encoding="utf-8")
"""In the format of vLLM 0.32, with figures made up, of a server with two engines."""


def test_the_figures_of_a_sample_are_summed_over_its_engines() -> None:
    assert parse_metrics(SAMPLE) == VllmMetrics(
        running=64,
        waiting=7,
        kv_cache_use=0.9731,
        prompt_tokens=4_000_123,
        generation_tokens=912_345,
        prefix_cache_queries=4_000_000,
        prefix_cache_hits=3_000_000,
        preemptions=12,
    )


def test_the_figures_read_as_one_line() -> None:
    assert str(parse_metrics(SAMPLE)) == (
        "64 running, 7 waiting, KV cache 97%, tokens 4,000,123 in and 912,345 out, prefix cache 75%, 12 preemptions"
    )


def test_without_a_prefix_cache_there_is_no_rate() -> None:
    off = parse_metrics(re.sub(r"(vllm:prefix_cache_queries_total\{.*\}) .*", r"\1 0.0", SAMPLE))
    assert off.prefix_cache_queries == 0 and off.prefix_cache_hit_rate is None
    assert "prefix cache -" in str(off)


@pytest.mark.parametrize("name", ["vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:prompt_tokens_total"])
def test_a_missing_figure_is_no_nought(name: str) -> None:
    with pytest.raises(ServerUnavailable, match=f"the metrics hold no {name}"):
        parse_metrics("\n".join(line for line in SAMPLE.splitlines() if not line.startswith(name + "{")))


@pytest.mark.parametrize("value", ["NaN", "+Inf", "", "1.2.3", "-1", "many"])
def test_a_value_that_is_no_count_is_a_missing_figure(value: str) -> None:
    with pytest.raises(ServerUnavailable, match="the metrics hold no vllm:num_preemptions_total"):
        parse_metrics(re.sub(r"(vllm:num_preemptions_total\{.*\}) .*", rf"\1 {value}", SAMPLE))


@given(st.text())
def test_what_is_no_metrics_page_is_refused(text: str) -> None:
    with pytest.raises(ServerUnavailable):
        parse_metrics(text)


@given(st.text(st.characters(blacklist_characters='\n\r"\\', blacklist_categories=("Cs", "Cc", "Zl", "Zp"))))
def test_a_models_name_does_not_matter(name: str) -> None:
    assert parse_metrics(SAMPLE.replace("Qwen/QwQ-32B", name)) == parse_metrics(SAMPLE)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(ServerUnavailable, match=r"http://127\.0\.0\.1:9/metrics does not answer"):
        VllmServer(VllmConfig(port=9), "a model").metrics()
