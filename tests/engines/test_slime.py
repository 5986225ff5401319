"""Our rollout with slime's own `Sample`, where a checkout of slime can be imported (PYTHONPATH=/path/to/slime)."""

# pyright: reportMissingImports=false

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.support.tiny_tokenizer import tiny_tokenizer
from tests.support.truths import score_messages
from tests.training.framework_servers import LOGPROB, FakeSampler, expected, router, searched
from tests.training.tiny import rl_rows
from trailforge.protocols import PROTOCOLS
from trailforge.schemas import to_dict
from trailforge.training.adapters import slime
from trailforge.training.masks import prepare_tokenizer, prompt_ids
from trailforge.training.scoring import read_messages

types: Any = pytest.importorskip("slime.utils.types")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("top_p", [1.0, 0.95])
async def test_slimes_own_sample_takes_the_episode(
    protocol: str, top_p: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its append and its checks; what it asserts before it trains holds with top-p below 1 too."""
    tokenizer: Any = tiny_tokenizer()
    prepare_tokenizer(tokenizer)
    tokenizer.save_pretrained(tmp_path / "model")
    (tmp_path / "search.yaml").write_text(yaml.safe_dump(searched(tmp_path)))
    monkeypatch.setenv("TRAILFORGE_SEARCH", str(tmp_path / "search.yaml"))
    row = rl_rows(protocol)[-1]
    sample = types.Sample(prompt=[to_dict(m) for m in row.prompt], label=to_dict(row.reward_model))
    params: dict[str, Any] = {"top_p": top_p, "max_new_tokens": 2000}
    if top_p != 1.0:
        params["custom_params"] = {"return_top_p_token_ids": True}  # as its own rollout asks
    async with router(FakeSampler(tokenizer, protocol)) as fake:
        args = SimpleNamespace(
            hf_checkpoint=str(tmp_path / "model"), sglang_router_ip="127.0.0.1", sglang_router_port=fake.port
        )
        await slime.generate(args, sample, params)
    messages = read_messages(sample.metadata["transcript"])
    ids, mask = expected(tokenizer, messages)
    assert sample.tokens == [*prompt_ids(tokenizer, row.prompt), *ids] and sample.loss_mask == mask
    assert sample.rollout_log_probs == [LOGPROB * value for value in mask]
    assert sample.status is types.Sample.Status.COMPLETED
    sample._validate_response_metadata_lengths()
    if top_p != 1.0:
        assert len(sample.rollout_top_p_token_offsets) == sample.response_length + 1
        assert int(sample.rollout_top_p_token_offsets[-1]) == len(sample.rollout_top_p_token_ids) == 2 * sum(mask)
    direct = score_messages(messages, row.reward_model.ground_truth, tokens=len(ids)).total
    assert await slime.reward(SimpleNamespace(), sample) == pytest.approx(direct, abs=1e-9)
