"""Handle the differences between OpenAI-compatible servers: parameters, replies, finish reasons, errors, rate limits
and URLs.
"""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.inference.provider.endpoint import Dialect as Dialect
    from trailforge.inference.provider.endpoint import retry_after as retry_after
    from trailforge.inference.provider.errors import ServerError as ServerError
    from trailforge.inference.provider.errors import read_error as read_error
    from trailforge.inference.provider.messages import chat_message as chat_message
    from trailforge.inference.provider.parameters import Parameters as Parameters
    from trailforge.inference.provider.replies import find_error as find_error
    from trailforge.inference.provider.urls import check_server_url as check_server_url
    from trailforge.inference.provider.urls import find_key_in_text as find_key_in_text
    from trailforge.inference.provider.urls import without_keys as without_keys
    from trailforge.inference.provider.wire import KEY_VARIABLES as KEY_VARIABLES
    from trailforge.inference.provider.wire import Unanswered as Unanswered
    from trailforge.inference.provider.wire import Untaken as Untaken
    from trailforge.inference.provider.wire import Wire as Wire
    from trailforge.inference.provider.wire import api_key as api_key
    from trailforge.inference.provider.wire import first_line as first_line
    from trailforge.inference.provider.wire import is_sendable as is_sendable
    from trailforge.inference.provider.wire import key_variable as key_variable
    from trailforge.inference.provider.wire import unpack as unpack
else:
    __getattr__, __dir__ = lazy_names(__name__)
