"""One client for every model: requests, ledger, limits, structured replies, and the servers that trailforge starts
itself."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.inference.asker import Asker as Asker
    from trailforge.inference.asker import Style as Style
    from trailforge.inference.asker import fill as fill
    from trailforge.inference.budget import Caps as Caps
    from trailforge.inference.client import ClientConfig as ClientConfig
    from trailforge.inference.client import ModelClient as ModelClient
    from trailforge.inference.client import split_urls as split_urls
    from trailforge.inference.prompts import Prompts as Prompts
    from trailforge.inference.prompts import Sentences as Sentences
    from trailforge.inference.reasoning import MEND as MEND
    from trailforge.inference.reasoning import Reasoning as Reasoning
    from trailforge.inference.reasoning import seems_thoughtful as seems_thoughtful
    from trailforge.inference.request import ChatTurn as ChatTurn
    from trailforge.inference.request import LongChat as LongChat
    from trailforge.inference.request import Reply as Reply
    from trailforge.inference.request import Request as Request
    from trailforge.inference.request import Sampling as Sampling
    from trailforge.inference.server import LocalServer as LocalServer
    from trailforge.inference.structured import INTEGER as INTEGER
    from trailforge.inference.structured import NUMBER as NUMBER
    from trailforge.inference.structured import TEXT as TEXT
    from trailforge.inference.structured import Client as Client
    from trailforge.inference.structured import ask_json as ask_json
    from trailforge.inference.structured import list_schema as list_schema
    from trailforge.inference.structured import object_schema as object_schema
    from trailforge.inference.thread_safe import ServedModel as ServedModel
    from trailforge.inference.thread_safe import open_thread_safe_model as open_thread_safe_model
    from trailforge.inference.thread_safe import read_served as read_served
    from trailforge.inference.threads import LoopThread as LoopThread
    from trailforge.inference.threads import Slots as Slots
    from trailforge.inference.threads import all_or_error as all_or_error
    from trailforge.inference.threads import once as once
    from trailforge.inference.usage import Counters as Counters
    from trailforge.inference.usage import Meter as Meter
    from trailforge.inference.usage import Prices as Prices
    from trailforge.inference.usage import Usage as Usage
    from trailforge.inference.usage import count_reply as count_reply
    from trailforge.inference.usage import estimated_tokens as estimated_tokens
    from trailforge.inference.usage import metering as metering
    from trailforge.inference.usage import usage_of as usage_of
else:
    __getattr__, __dir__ = lazy_names(__name__)
