"""The reward for verl: `reward.custom_reward_function.path=…/training/adapters/verl.py`, `.name=compute_score`.

`reward.custom_reward_function.reward_kwargs` may name `protocol` and `preset`, a reward preset or a training preset's
YAML file, whose judge is then asked (verl calls this on many threads); without them each question's own hold.
verl decodes the whole response, observations too, and knows neither its length in tokens nor who wrote what. An agent
loop that does, as `verl_agent_loop`, puts it into its extra fields, which the reward manager `naive` hands on in
`extra_info`: `transcript` (the episode's messages), `response_tokens`, `retrieved_titles`, `judge`. Without
`response_tokens` nothing is taken off for length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trailforge.training.scoring import read_episode, scorer_of


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    preset: str | None = None,
    protocol: str | None = None,
    **_: Any,
) -> dict[str, float]:
    """Return `score`, the reward of a response, with its parts, which verl logs; parts that are not known are 0.

    `ground_truth` and `extra_info` are columns of our export (`extra_info` also has what the agent loop adds). `preset`
    names a reward preset or a training preset's YAML file, `protocol` the protocol of the response; None: the
    question's own.
    """
    extra = extra_info or {}
    tokens = extra.get("response_tokens")
    episode = read_episode(
        solution_str, ground_truth, extra, protocol=protocol, tokens=None if tokens is None else int(tokens)
    )
    reward = scorer_of(preset, protocol).begin(episode).reward()
    # verl makes arrays of what it logs: every key in every row, and numbers only.
    return {"score": reward.total} | {name: part or 0.0 for name, part in reward.parts.items()}
