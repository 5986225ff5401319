"""What all processes of `warm` begin with: the libraries that take longest to import, and our own modules.

But for Prefect, which reads the environment when it is imported. They stay to the end: neither their import nor any
process looks for garbage in them.
"""

import gc
import logging
import sys
from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import cast

import trailforge

gc.disable()
logging.disable(logging.WARNING)  # what Beam misses is nothing to who runs tests
for _name in (
    *("aiohttp.web", "apache_beam", "apache_beam.runners.portability.fn_api_runner.fn_runner", "bm25s", "faiss"),
    *("jsonschema", "matplotlib.backends.backend_agg", "matplotlib.figure", "networkx", "openai", "pandas"),
    *("distributed.cli.dask_scheduler", "distributed.cli.dask_worker", "dask.delayed"),
    *("plotly.graph_objects", "pyarrow.dataset", "sentence_transformers", "sklearn.cluster", "streamlit", "typer"),
    *("apache_beam.runners.worker.worker_pool_main", "apache_beam.runners.portability.local_job_service", "uvicorn"),
    *("http.server", "prometheus_client", "rapidfuzz.distance", "rapidfuzz.fuzz", "rapidfuzz.process"),
    *("sentence_transformers.models", "transformers.models.bert.modeling_bert"),
    *("transformers.models.bert.tokenization_bert", "rich.markdown", "rich._emoji_codes", "typer._click.decorators"),
    *("PIL.BmpImagePlugin", "PIL.GifImagePlugin", "PIL.JpegImagePlugin", "PIL.PngImagePlugin", "PIL.PpmImagePlugin"),
):
    with suppress(ImportError):  # of an environment that has less
        import_module(_name)
sys.modules["prefect"] = cast(ModuleType, None)  # who imports it cannot be imported here
for _module in walk_packages(trailforge.__path__, "trailforge."):
    if not _module.name.endswith("__main__"):
        with suppress(ImportError):
            import_module(_module.name)
import_module("trailforge.cli").build_command()
del sys.modules["prefect"]
logging.disable(logging.NOTSET)
logging.getLogger().handlers.clear()  # which a library's first message set up: a command does it before it imports any
gc.freeze()
gc.set_threshold(20_000)  # what is frozen counts no more, so that the rest would be looked through more often
gc.enable()
