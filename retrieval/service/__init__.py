"""Search over HTTP: the server behind `trailforge serve-search`, and its client.

    client = connect("http://127.0.0.1:8990")                    (`client.py`) a `Retriever`, for any thread and loop
    passages = await client.retrieve("Who directed …?", 5)

`/retrieve` takes and gives what Search-R1's server does, so that its trainers work against ours and our client against
theirs.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.service.client import NO_KEY as NO_KEY
    from trailforge.retrieval.service.client import SearchClient as SearchClient
    from trailforge.retrieval.service.client import connect as connect
    from trailforge.retrieval.service.client import is_address as is_address
    from trailforge.retrieval.service.searching import AT_ONCE as AT_ONCE
    from trailforge.retrieval.service.searching import RankedIndex as RankedIndex
    from trailforge.retrieval.service.searching import ServedIndex as ServedIndex
    from trailforge.retrieval.service.server import SearchServer as SearchServer
    from trailforge.retrieval.service.server import ServerLimits as ServerLimits
    from trailforge.retrieval.service.server import listen as listen
    from trailforge.retrieval.service.wire import Callers as Callers
else:
    __getattr__, __dir__ = lazy_names(__name__)
