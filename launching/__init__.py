"""Launch runs and trainings on one machine or many: write the files of a launch, and hand them to a cluster."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.launching.config import NO_SEQUENCE_PARALLEL as NO_SEQUENCE_PARALLEL
    from trailforge.launching.config import Cluster as Cluster
    from trailforge.launching.config import LaunchConfig as LaunchConfig
    from trailforge.launching.config import Launcher as Launcher
    from trailforge.launching.config import pods_name as pods_name
    from trailforge.launching.generation import RunToLaunch as RunToLaunch
    from trailforge.launching.generation import render_run as render_run
    from trailforge.launching.submit import launch_folder as launch_folder
    from trailforge.launching.submit import submit_run as submit_run
    from trailforge.launching.submit import submit_training as submit_training
    from trailforge.launching.submit import write_launch as write_launch
    from trailforge.launching.training import ACCELERATE as ACCELERATE
    from trailforge.launching.training import accelerate_config as accelerate_config
    from trailforge.launching.training import render as render
else:
    __getattr__, __dir__ = lazy_names(__name__)
