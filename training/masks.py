"""Convert conversations to tokens with a loss mask: the loss is taken on what the agent wrote, and on the end of its
turns.

    <|im_start|>system\n…<|im_end|>\n
    <|im_start|>user\n…<|im_end|>\n
    <|im_start|>assistant\n…<|im_end|>\n          loss on `…<|im_end|>`
    <|im_start|>user\n<result>…</result><|im_end|>\n    a tool turn

This is ChatML, for models whose tokenizer knows its two tokens; what other models have around turns is read from their
own chat template (`training.chat_marks`). Either way it differs from what templates do in three ways (RL rollouts and
`protocols.episodes` speak the same): no system prompt is put in where there is none; a tool turn is a user turn as it
stands, for its protocol has tagged it already and Qwen's template would put `<tool_response>` around it again; nothing
is stripped, so that the thoughts of earlier turns stay and a conversation begins as it did a turn before.

Parts of a turn can be left out of the loss (`unlearnt`), in characters: a token goes with the first character that it
shares with them, so that nothing of such a part is learnt.

An agent's turn is tokenised by itself, as it comes out of a rollout, so that no token holds a part of it and a part of
the template. Nothing here imports transformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trailforge.protocols import Spoken
from trailforge.schemas import InvalidInput, TextSpan
from trailforge.training.chat_marks import CHATML, END, START, TRAINING_TEMPLATE, Frame, frame_of, own_frame

IGNORED = -100
"""The label of tokens without loss, in PyTorch and every trainer."""
_OWN = "trailforge_own_template"
"""Where a tokenizer keeps the chat template that it brought along."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a conversation's text, with or without loss."""

    text: str
    is_agents: bool
    """Whether the piece is a whole turn of the agent without its heading, its end included. Other pieces are what lies
    between.
    """
    train: bool
    """Whether the loss is taken on the piece. It is only taken on an agent's turn."""
    message: int | None = None
    """Position of the agent's turn among the messages; None for other pieces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedTokens:
    """A conversation as tokens and labels, two lists of equal length."""

    input_ids: list[int]
    labels: list[int]
    """The label of each token: its own id where the loss is taken, else `IGNORED`."""

    @property
    def mask(self) -> list[int]:
        """Return the loss mask: 1 where the loss is taken, else 0."""
        return [int(label != IGNORED) for label in self.labels]


def pieces(messages: Sequence[Spoken], train: Sequence[bool] | None = None, frame: Frame = CHATML) -> Iterator[Piece]:
    """Split a conversation where the agent's words begin and end. `train` says which turns have a loss, by default all
    of the agent's. Raises `InvalidInput` for flags that do not fit the agent's turns.
    """
    flags = [message.role == "assistant" for message in messages] if train is None else train
    if len(flags) != len(messages):
        raise InvalidInput(f"{len(flags)} flags for {len(messages)} messages: give one for each message", field="train")
    context = ""
    for number, (message, flag) in enumerate(zip(messages, flags, strict=True)):
        context += frame.before(message.role, is_first=number == 0)
        if message.role == "assistant":
            yield Piece(context, is_agents=False, train=False)
            yield Piece(message.content + frame.end, is_agents=True, train=flag, message=number)
            context = frame.after_end
        elif flag:
            raise InvalidInput(
                f"the loss is taken on message {number}, a turn of {message.role}; only the assistant's are trained",
                field="train",
            )
        else:
            context += message.content + frame.after(message.role)
    if context:
        yield Piece(context, is_agents=False, train=False)


def render(messages: Sequence[Spoken], *, add_generation_prompt: bool = False) -> str:
    """Return a conversation as text; with `add_generation_prompt`, up to where the agent's next turn begins."""
    text = "".join(piece.text for piece in pieces(messages))
    return f"{text}{START}assistant\n" if add_generation_prompt else text


def missing_tokens(tokenizer: Any) -> list[str]:
    """Return which of the two ChatML tokens a tokenizer does not read as one token."""
    made = {token: tokenizer.encode(token, add_special_tokens=False) for token in (START, END)}
    return [token for token, ids in made.items() if tokenizer.convert_ids_to_tokens(ids) != [token]]


def teach(tokenizer: Any) -> list[str]:
    """Add the tokens of `missing_tokens` to a tokenizer that has no usable chat template, and return them. The model
    must then get weights for them.
    """
    added = missing_tokens(tokenizer) if own_frame(tokenizer) is None else []
    if added:
        tokenizer.add_special_tokens({"extra_special_tokens": added}, replace_extra_special_tokens=False)
    return added


def prepare_tokenizer(tokenizer: Any) -> None:
    """Give a tokenizer of transformers our chat template, and the end of a turn as its end of sequence; a model is
    saved with it.

    The marks around turns are those of its own template where it does not know those of ChatML. Raises `InvalidInput`
    when it knows neither, and when it changes text.
    """
    missing = missing_tokens(tokenizer)
    own = own_frame(tokenizer) if missing else None
    if missing and own is None:
        raise InvalidInput(
            f"the tokenizer has no token {' and '.join(missing)}; take a model that speaks ChatML or has a chat "
            "template of regular marks, or what `trailforge train sft` makes of this one: it adds them"
        )
    frame = own or CHATML
    tokenizer.clean_up_tokenization_spaces = False
    for text in (
        frame.before("assistant"),
        f"<search>Who wrote it ?\n\n é</search>{frame.end}",
        f"{frame.after_end}{frame.before('tool')}<result>",
    ):  # as `pieces` cuts: some tokenizers put a space before each piece, or drop line ends
        found = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False), skip_special_tokens=False)
        if found != text:
            raise InvalidInput(f"the tokenizer makes {found!r} of {text!r}; take a model with a byte-level one")
    if not hasattr(tokenizer, _OWN):
        setattr(tokenizer, _OWN, tokenizer.chat_template)
    tokenizer.chat_template = TRAINING_TEMPLATE if own is None else own.template
    tokenizer.eos_token = frame.end


def own_template(tokenizer: Any) -> str | None:
    """Return the chat template that a tokenizer had before ours replaced it; None where it had none."""
    return getattr(tokenizer, _OWN, tokenizer.chat_template)


def special_tokens(tokenizer: Any) -> list[str]:
    """Return the texts that no turn may contain, since they would end or forge one: ChatML's tokens, and all that a
    tokenizer calls special, including those without a role, such as `[INST]` of Mistral's.
    """
    added = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
    return sorted({START, END, *tokenizer.all_special_tokens, *added} - {""})


def escape_special(tokenizer: Any, text: str) -> str:
    """Return retrieved text in which the first character of every special token of this tokenizer is an HTML reference,
    since `protocols.base.escape_retrieved` cannot know the tokens of every model.
    """
    for token in special_tokens(tokenizer):
        text = text.replace(token, f"&#{ord(token[0])};{token[1:]}")
    return text


def masked_tokens(
    tokenizer: Any,
    messages: Sequence[Spoken],
    train: Sequence[bool] | None = None,
    unlearnt: Sequence[TextSpan] = (),
) -> MaskedTokens:
    """Return tokens and labels of a conversation, for a tokenizer after `prepare_tokenizer`. `unlearnt` are parts of
    the agent's turns without loss. Raises `InvalidInput` as `pieces` does, and when a turn contains the text of a
    special token, which would end or forge a turn.
    """
    special = special_tokens(tokenizer)
    for number, message in enumerate(messages):
        if found := [token for token in special if token in message.content]:
            raise InvalidInput(
                f"message {number} holds the special token {found[0]}, which would end or forge "
                "a turn; leave the row out",
                field="messages",
            )
    input_ids: list[int] = []
    labels: list[int] = []
    for piece in pieces(messages, train, frame_of(tokenizer)):
        ids = tokenizer.encode(piece.text, add_special_tokens=False)
        input_ids += ids
        labels += _labels(tokenizer, piece, ids, unlearnt) if piece.train else [IGNORED] * len(ids)
    return MaskedTokens(input_ids=input_ids, labels=labels)


def _labels(tokenizer: Any, piece: Piece, ids: list[int], unlearnt: Sequence[TextSpan]) -> list[int]:
    """Of a trained turn: the ids, but for tokens that share a character with one of its parts to be left out."""
    parts = [(span.start, span.end) for span in unlearnt if span.message == piece.message]
    if not parts:
        return ids
    if not tokenizer.is_fast:
        raise InvalidInput(
            "parts of turns are left out of the loss only by a fast tokenizer, which knows where its tokens stand; "
            "take a model with one, or make the training set with `--mistakes train`"
        )
    found = tokenizer(piece.text, add_special_tokens=False, return_offsets_mapping=True)
    places: list[tuple[int, int]] = found["offset_mapping"]
    return [
        IGNORED if any(start < other_end and other_start < end for other_start, other_end in parts) else token
        for token, (start, end) in zip(ids, places, strict=True)
    ]


def prompt_ids(tokenizer: Any, messages: Sequence[Spoken]) -> list[int]:
    """Return the tokens up to where the agent's next turn begins."""
    heading = frame_of(tokenizer).before("assistant")
    return masked_tokens(tokenizer, messages).input_ids + tokenizer.encode(heading, add_special_tokens=False)


def observation_ids(tokenizer: Any, content: str) -> list[int]:
    """Return the tokens between two turns of the agent: the rest of the first turn, a tool turn, the heading of the
    next.
    """
    frame = frame_of(tokenizer)
    text = f"{frame.after_end}{frame.before('tool')}{content}{frame.after('tool')}{frame.before('assistant')}"
    return tokenizer.encode(text, add_special_tokens=False)
