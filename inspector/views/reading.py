"""The looks of bundles, questions and episodes of a knowledge graph, for the page's one style sheet."""

from __future__ import annotations

from inspector.views import bundle_question, bundles, checks, kg_episode, side_by_side

STYLE = f"{checks.STYLE}{side_by_side.STYLE}{bundle_question.STYLE}{bundles.STYLE}{kg_episode.STYLE}"
