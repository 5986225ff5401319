"""Find rows of a run's tables by a search text that a person types."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.pipelines.search.alike import can_compare as can_compare
    from trailforge.pipelines.search.query import HELP as HELP
    from trailforge.pipelines.search.query import LIKE as LIKE
    from trailforge.pipelines.search.query import Term as Term
    from trailforge.pipelines.search.query import add_term as add_term
    from trailforge.pipelines.search.query import like_of as like_of
    from trailforge.pipelines.search.query import quote as quote
    from trailforge.pipelines.search.query import texts_of as texts_of
    from trailforge.pipelines.search.query import write_search as write_search
    from trailforge.pipelines.search.rows import all_rows as all_rows
    from trailforge.pipelines.search.rows import search_on as search_on
    from trailforge.pipelines.search.rows import search_rows as search_rows
    from trailforge.pipelines.search.sql import answer_sql as answer_sql
    from trailforge.pipelines.search.sql import write_answer as write_answer
else:
    __getattr__, __dir__ = lazy_names(__name__)
