"""A scripted model some of whose replies end at `max_tokens`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.support.scripted import Script, ScriptedModel
from trailforge.inference import Reply, Request


class CutModel(ScriptedModel):
    """Cuts the replies to the requests that `is_cut` names; by default all of them."""

    def __init__(self, script: Script, is_cut: Callable[[Request], bool] = lambda request: True) -> None:
        super().__init__(script)
        self._is_cut = is_cut

    def _reply(self, request: Request) -> Reply:
        reply = super()._reply(request)
        return replace(reply, finish_reason="length") if self._is_cut(request) else reply
