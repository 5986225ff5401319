"""One client for every model: requests, ledger, limits, structured replies, and the servers that trailforge starts
itself."""

from trailforge.inference.budget import Caps, Meter, Prices, Usage, metering
from trailforge.inference.client import ClientConfig, ModelClient
from trailforge.inference.ledgers import check_ledger, check_ledger_url, ledger_url, open_ledger
from trailforge.inference.ledgers.postgres import PostgresLedger
from trailforge.inference.ledgers.sqlite import Ledger, SqliteLedger
from trailforge.inference.request import ChatTurn, Reply, Request, Sampling
from trailforge.inference.structured import Client, ask_json, ask_matching

__all__ = [
    "Caps",
    "ChatTurn",
    "Client",
    "ClientConfig",
    "Ledger",
    "Meter",
    "ModelClient",
    "PostgresLedger",
    "Prices",
    "Reply",
    "Request",
    "Sampling",
    "SqliteLedger",
    "Usage",
    "ask_json",
    "ask_matching",
    "check_ledger",
    "check_ledger_url",
    "ledger_url",
    "metering",
    "open_ledger",
]
