"""Find the marks around the turns of a conversation: those of ChatML, or of a model's own chat template.

A template is a program, and many strip: Qwen3's and R1-Distill's drop the thoughts of earlier turns, Llama's trims. An
agent's next prompt then no longer begins with what it wrote, which is neither what it saw nor what it can be trained
on. So a template is asked for its marks alone, by a conversation of plain words, and turns are put between these marks
as they are. A template whose marks depend on the place of a turn has no such frame and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

START = "<|im_start|>"
END = "<|im_end|>"
"""The mark that ends every turn of ChatML. A model writes it, so it is the end-of-sequence token after
`masks.prepare_tokenizer`.
"""

TRAINING_TEMPLATE = (
    "{%- for message in messages %}"
    "{%- if message['role'] in ['assistant', 'past_assistant'] %}"
    "{{- '<|im_start|>assistant\n' }}"
    "{%- if message['role'] == 'assistant' and message.get('train', true) %}"
    "{%- generation %}{{- message['content'] + '<|im_end|>' }}{%- endgeneration %}"
    "{%- else %}{{- message['content'] + '<|im_end|>' }}{%- endif %}"
    "{%- else %}"
    "{{- '<|im_start|>' + ('user' if message['role'] == 'tool' else message['role']) + '\n' }}"
    "{{- message['content'] + '<|im_end|>' }}"
    "{%- endif %}"
    "{{- '\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""The template `masks.render` in Jinja, for trainers that tokenise themselves: its markers are the mask.

A message may carry `train: false`; an assistant turn without that key is trained. Role `past_assistant` says the same
to trainers that know no such key and train every assistant turn.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The marks of a chat template around turns, by role."""

    opening: Mapping[str, str]
    """The mark before a turn of `system`, `user` and `assistant`."""
    closing: Mapping[str, str]
    """The mark after a turn of `system` and `user`."""
    end: str
    """The token that ends the agent's turns, on which a loss is taken."""
    after_end: str
    """The text that follows `end`."""
    first: Mapping[str, str] = field(default_factory=dict)
    """The mark before a turn that is the first, where it differs: it then has the token that begins a text."""

    def before(self, role: str, *, is_first: bool = False) -> str:
        """Return the marks before a turn. A tool's turn counts as the user's."""
        name = "user" if role == "tool" else role
        return self.first.get(name, self.opening[name]) if is_first else self.opening[name]

    def after(self, role: str) -> str:
        """Return the marks after a turn that is not the agent's."""
        return self.closing["user" if role == "tool" else role]

    @property
    def template(self) -> str:
        """Return the marks as a Jinja template, with markers and keys as `TRAINING_TEMPLATE` has them."""
        mark = {role: _quoted(text) for role, text in self.opening.items()}
        head = {role: _quoted(self.first.get(role, text)) for role, text in self.opening.items()}
        said = f"{{{{- message['content'] + {_quoted(self.end)} }}}}"
        return (
            "{%- for message in messages %}"
            "{%- if message['role'] in ['assistant', 'past_assistant'] %}"
            f"{{{{- {head['assistant']} if loop.first else {mark['assistant']} }}}}"
            "{%- if message['role'] == 'assistant' and message.get('train', true) %}"
            f"{{%- generation %}}{said}{{%- endgeneration %}}"
            f"{{%- else %}}{said}{{%- endif %}}"
            f"{{{{- {_quoted(self.after_end)} }}}}"
            "{%- elif message['role'] == 'system' %}"
            f"{{{{- ({head['system']} if loop.first else {mark['system']}) + message['content'] }}}}"
            f"{{{{- {_quoted(self.closing['system'])} }}}}"
            "{%- else %}"
            f"{{{{- ({head['user']} if loop.first else {mark['user']}) + message['content'] }}}}"
            f"{{{{- {_quoted(self.closing['user'])} }}}}"
            "{%- endif %}"
            "{%- endfor %}"
            f"{{%- if add_generation_prompt %}}{{{{- {mark['assistant']} }}}}{{%- endif %}}"
        )


CHATML = Frame(
    opening={role: f"{START}{role}\n" for role in ("system", "user", "assistant")},
    closing=dict.fromkeys(("system", "user"), f"{END}\n"),
    end=END,
    after_end="\n",
)
_WORDS = ("Alpha.", "Beta?", "Gamma.", "Delta?", "Epsilon.", "Zeta?")
"""Turns by which a template is asked for its marks: no white space to trim, no thoughts to drop."""
_ROLES = ("system", "user", "assistant", "user", "assistant", "user")
_known: dict[tuple[str, str], Frame | None] = {}


def frame_of(tokenizer: Any) -> Frame:
    """Return the marks that a tokenizer writes around turns after `masks.prepare_tokenizer`."""
    if getattr(tokenizer, "chat_template", None) in (None, TRAINING_TEMPLATE):
        return CHATML
    return own_frame(tokenizer) or CHATML


def own_frame(tokenizer: Any) -> Frame | None:
    """Return the marks of a tokenizer's own chat template; None where it has none, or none that can be used."""
    template = getattr(tokenizer, "chat_template", None)
    if not isinstance(template, str):
        return None
    key = (template, str(tokenizer.bos_token))
    if key not in _known:
        _known[key] = _read_frame(tokenizer)
    return _known[key]


def _read_frame(tokenizer: Any) -> Frame | None:
    whole = _marks(tokenizer, 0, 6)
    shorter, without_system, first_agent = _marks(tokenizer, 0, 5), _marks(tokenizer, 1, 2), _marks(tokenizer, 0, 3)
    if whole is None or shorter is None or without_system is None or first_agent is None:
        return None
    ended, user_closing = shorter[-1], whole[-1]
    is_regular = (
        whole[2] == whole[4]
        and whole[3] == whole[5]
        and first_agent[-1] == ended
        and whole[:5] == shorter[:5]
        and without_system[-1] == user_closing
        and whole[2].startswith(user_closing)
        and whole[3].startswith(ended)
    )
    end = next((token for token in _special(tokenizer) if ended.startswith(token)), "")
    if not is_regular or not end:
        return None
    user = whole[3].removeprefix(ended)
    if not whole[1].endswith(user):
        return None
    return Frame(
        opening={"system": whole[0], "user": user, "assistant": whole[2].removeprefix(user_closing)},
        closing={"system": whole[1].removesuffix(user), "user": user_closing},
        end=end,
        after_end=ended.removeprefix(end),
        first={"user": without_system[0]},
    )


def _marks(tokenizer: Any, start: int, stop: int) -> list[str] | None:
    """What a template puts before, between and behind some of the turns; None when it refuses or changes them."""
    turns = [{"role": role, "content": text} for role, text in zip(_ROLES, _WORDS, strict=True)][start:stop]
    try:
        # Llama's would put today's date before the rules.
        text = tokenizer.apply_chat_template(turns, tokenize=False, date_string="26 Jul 2024")
    except Exception:  # whatever a template raises by itself
        return None
    found = []
    for word in _WORDS[start:stop]:
        before, is_there, text = text.partition(word)
        if not is_there:
            return None
        found.append(before)
    return [*found, text]


def _special(tokenizer: Any) -> list[str]:
    """Texts of special tokens, longer ones first."""
    added = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
    return sorted({*tokenizer.all_special_tokens, *added} - {""}, key=lambda text: (-len(text), text))


def _quoted(text: str) -> str:
    """As a string of Jinja."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
