"""Describe rows as plain parts that the page draws in a browser and `show` in a terminal, as each data set declares."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.pipelines.show.parts import Chips as Chips
    from trailforge.pipelines.show.parts import Code as Code
    from trailforge.pipelines.show.parts import Columns as Columns
    from trailforge.pipelines.show.parts import Conversation as Conversation
    from trailforge.pipelines.show.parts import DataTable as DataTable
    from trailforge.pipelines.show.parts import DecideLink as DecideLink
    from trailforge.pipelines.show.parts import Diagram as Diagram
    from trailforge.pipelines.show.parts import DiagramEdge as DiagramEdge
    from trailforge.pipelines.show.parts import DiagramNode as DiagramNode
    from trailforge.pipelines.show.parts import DocumentPanes as DocumentPanes
    from trailforge.pipelines.show.parts import FieldList as FieldList
    from trailforge.pipelines.show.parts import Fold as Fold
    from trailforge.pipelines.show.parts import Grid as Grid
    from trailforge.pipelines.show.parts import GridRow as GridRow
    from trailforge.pipelines.show.parts import Line as Line
    from trailforge.pipelines.show.parts import Map as Map
    from trailforge.pipelines.show.parts import MapPoint as MapPoint
    from trailforge.pipelines.show.parts import Mark as Mark
    from trailforge.pipelines.show.parts import Meters as Meters
    from trailforge.pipelines.show.parts import Note as Note
    from trailforge.pipelines.show.parts import Option as Option
    from trailforge.pipelines.show.parts import Part as Part
    from trailforge.pipelines.show.parts import Parts as Parts
    from trailforge.pipelines.show.parts import Scores as Scores
    from trailforge.pipelines.show.parts import SearchOn as SearchOn
    from trailforge.pipelines.show.parts import Selector as Selector
    from trailforge.pipelines.show.parts import ShortLine as ShortLine
    from trailforge.pipelines.show.parts import Show as Show
    from trailforge.pipelines.show.parts import ShownDocument as ShownDocument
    from trailforge.pipelines.show.parts import ShownNode as ShownNode
    from trailforge.pipelines.show.parts import ShownTable as ShownTable
    from trailforge.pipelines.show.parts import StyledText as StyledText
    from trailforge.pipelines.show.parts import Tab as Tab
    from trailforge.pipelines.show.parts import Tabs as Tabs
    from trailforge.pipelines.show.parts import Title as Title
    from trailforge.pipelines.show.parts import TreeDiagram as TreeDiagram
    from trailforge.pipelines.show.parts import TreePath as TreePath
    from trailforge.pipelines.show.parts import tab as tab
else:
    __getattr__, __dir__ = lazy_names(__name__)
