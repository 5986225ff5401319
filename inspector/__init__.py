"""Show finished runs, evaluations and trainings to people, on a page in a browser and in a terminal."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.inspector.deciding import decide as decide
    from trailforge.inspector.deciding import make_fix as make_fix
    from trailforge.inspector.deciding import shares_of as shares_of
    from trailforge.inspector.evaluations import is_training as is_training
    from trailforge.inspector.export import export_pages as export_pages
    from trailforge.inspector.roots import is_root as is_root
    from trailforge.inspector.server import check_port as check_port
    from trailforge.inspector.server import check_reach as check_reach
    from trailforge.inspector.server import is_shared as is_shared
    from trailforge.inspector.server import serve as serve
    from trailforge.inspector.showing import wanted_by as wanted_by
    from trailforge.inspector.terminal import report_evaluation as report_evaluation
    from trailforge.inspector.terminal import show_end as show_end
    from trailforge.inspector.terminal import show_evaluation as show_evaluation
    from trailforge.inspector.terminal import show_first as show_first
    from trailforge.inspector.terminal import show_rows as show_rows
    from trailforge.inspector.terminal import show_training as show_training
    from trailforge.inspector.terminal_drawing import kg_result as kg_result
    from trailforge.inspector.terminal_drawing import show as show
    from trailforge.inspector.terminal_drawing import show_live as show_live
else:
    __getattr__, __dir__ = lazy_names(__name__)
