"""Data set cards: their text, the licences of what rows were made from, and their plots."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.pipelines.cards.card import cost_table as cost_table
    from trailforge.pipelines.cards.card import describe_empty as describe_empty
    from trailforge.pipelines.cards.card import funnel_table as funnel_table
    from trailforge.pipelines.cards.card import limits as limits
    from trailforge.pipelines.cards.card import origin_lines as origin_lines
    from trailforge.pipelines.cards.card import pair_example as pair_example
    from trailforge.pipelines.cards.card import rows_of as rows_of
    from trailforge.pipelines.cards.card import short as short
    from trailforge.pipelines.cards.card import turn as turn
    from trailforge.pipelines.cards.card import write_card as write_card
    from trailforge.pipelines.cards.licences import of_documents as of_documents
    from trailforge.pipelines.cards.licences import of_graph as of_graph
    from trailforge.pipelines.cards.licences import of_questions as of_questions
    from trailforge.pipelines.cards.licences import over_corpus as over_corpus
    from trailforge.pipelines.cards.licences import plain as plain
    from trailforge.pipelines.cards.plots import BAD as BAD
    from trailforge.pipelines.cards.plots import COLOURS as COLOURS
    from trailforge.pipelines.cards.plots import DARK as DARK
    from trailforge.pipelines.cards.plots import GOOD as GOOD
    from trailforge.pipelines.cards.plots import GREY as GREY
    from trailforge.pipelines.cards.plots import bars as bars
    from trailforge.pipelines.cards.plots import figure_of as figure_of
    from trailforge.pipelines.cards.plots import png_of as png_of
    from trailforge.pipelines.cards.plots import remove_frame as remove_frame
    from trailforge.pipelines.cards.plots import write_figure as write_figure
else:
    __getattr__, __dir__ = lazy_names(__name__)
