"""The two ways to write a bundle's questions, behind one interface: `write()`, `answer()` and a `meter`."""

from __future__ import annotations

from trailforge.generators.document_bundles.write import BundleContext, BundleWork
from trailforge.schemas import BundleInput
from trailforge.small_model.bundle_steps import StepWork


def work_for(item: BundleInput, context: BundleContext) -> BundleWork | StepWork:
    """A bundle under way, by the writer that the run's configuration names."""
    if context.config.kind == "steps":
        return StepWork(item=item, context=context)
    return BundleWork(item=item, context=context)
