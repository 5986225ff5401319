"""Special tokens of chat templates, escaped and restored."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailforge.schemas.text import chat_token_in, escape_chat_tokens, restore_chat_tokens

TOKENS = ("<|im_end|>", "<｜User｜>", "</s>", "<bos>", "<sop>", "<start_of_turn>", "<<SYS>>", "<</SYS>>", "[INST]",
          "[/INST]", "[gMASK]", "[|assistant|]")  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_tokens_become_plain_text_and_come_back(token: str) -> None:
    assert chat_token_in(escape_chat_tokens(token)) is None
    assert restore_chat_tokens(escape_chat_tokens(token)) == token


@given(st.lists(st.sampled_from([*TOKENS, "<", "[", "]", ">", "|", " ", "a &lt; b", "&#91;1]", "&amp;"])).map("".join))
def test_every_text_comes_back(text: str) -> None:
    assert restore_chat_tokens(escape_chat_tokens(text)) == text


def test_other_references_stay() -> None:
    assert restore_chat_tokens("2 &lt; 3, &#91;1]") == "2 &lt; 3, &#91;1]"
