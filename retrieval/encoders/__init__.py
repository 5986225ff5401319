"""Sentence embeddings, by a model that is loaded here or by a server."""

from typing import TYPE_CHECKING

from trailforge.doors import lazy_names

if TYPE_CHECKING:
    from trailforge.retrieval.encoders.embeddings import encoder_model as encoder_model
    from trailforge.retrieval.encoders.embeddings import split_served as split_served
    from trailforge.retrieval.encoders.encoder import MEND as MEND
    from trailforge.retrieval.encoders.encoder import PACKAGED as PACKAGED
    from trailforge.retrieval.encoders.encoder import Encoder as Encoder
    from trailforge.retrieval.encoders.encoder import check_encoder as check_encoder
    from trailforge.retrieval.encoders.encoder import encoder_packages as encoder_packages
    from trailforge.retrieval.encoders.encoder import fetch_encoder as fetch_encoder
    from trailforge.retrieval.encoders.encoder import is_cached as is_cached
    from trailforge.retrieval.encoders.encoder import why_not_on_hub as why_not_on_hub
else:
    __getattr__, __dir__ = lazy_names(__name__)
