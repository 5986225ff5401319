"""One client for every model: requests, ledger, limits, structured replies, and the servers that we start ourselves."""

from inference.budget import Caps
from inference.client import ClientConfig, ModelClient
from inference.ledger import Ledger, SqliteLedger
from inference.request import ChatTurn, Reply, Request, Sampling
from inference.structured import ask_json, ask_matching
from inference.usage import Counters, Meter, Prices, Usage

__all__ = [
    "Caps",
    "ChatTurn",
    "ClientConfig",
    "Counters",
    "Ledger",
    "Meter",
    "ModelClient",
    "Prices",
    "Reply",
    "Request",
    "Sampling",
    "SqliteLedger",
    "Usage",
    "ask_json",
    "ask_matching",
]
