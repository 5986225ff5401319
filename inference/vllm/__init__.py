"""Start, watch and measure a vLLM server."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.inference.vllm.server import VllmConfig as VllmConfig
    from trailforge.inference.vllm.server import VllmServer as VllmServer
    from trailforge.inference.vllm.server import serve as serve
    from trailforge.inference.vllm.server import vllm_arguments as vllm_arguments
else:
    __getattr__, __dir__ = lazy_names(__name__)
