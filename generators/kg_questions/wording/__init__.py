"""Facts in words, by rule: a question that describes what is found on the way, and its sub-questions."""

from trailforge.generators.kg_questions.wording.composing import Wording, compose
from trailforge.generators.kg_questions.wording.mentions import mention_of
from trailforge.generators.kg_questions.wording.phrases import Phrase, phrase_of

__all__ = ["Phrase", "Wording", "compose", "mention_of", "phrase_of"]
