"""The two ways to write a bundle's questions, behind one interface: `write()`, `answer()` and a `meter`."""

from __future__ import annotations

from trailforge.generators.bundle_steps import StepWork
from trailforge.generators.document_bundles import BundleContext, BundleWork
from trailforge.schemas import BundleInput


def work_for(item: BundleInput, context: BundleContext) -> BundleWork | StepWork:
    """A bundle under way, by the writer that the run's configuration names."""
    if context.config.kind == "steps":
        return StepWork(item=item, context=context)
    return BundleWork(item=item, context=context)
