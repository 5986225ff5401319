"""Encoders of the model hub: in the cache, to be fetched, or out of reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from trailforge.pipelines.runs import doctor_search
from trailforge.retrieval.encoders import encoder
from trailforge.retrieval.encoders.encoder import fetch_encoder, is_cached, why_not_on_hub
from trailforge.schemas import InvalidInput

NAME = "someone/encoder"


@pytest.fixture
def snapshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of a model in a cache of the test's own, without a file."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    revision = "0" * 40
    repo = tmp_path / f"models--{NAME.replace('/', '--')}"
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(revision)
    (repo / "snapshots" / revision).mkdir(parents=True)
    return repo / "snapshots" / revision


def test_a_model_is_cached_when_its_weights_are_and_not_by_its_description_alone(snapshot: Path) -> None:
    assert not is_cached(NAME)
    (snapshot / "config.json").write_text("{}")
    assert not is_cached(NAME)  # a download that was broken off
    (snapshot / "model.safetensors").symlink_to(snapshot / "nowhere")
    assert not is_cached(NAME)
    (snapshot / "pytorch_model.bin").write_bytes(b"weights")
    assert is_cached(NAME) and not fetch_encoder(NAME)
    assert doctor_search.encoder(NAME).detail == f"{NAME} is in the cache"


def test_while_the_hub_is_switched_off_what_is_not_cached_is_a_fault_and_is_not_fetched(snapshot: Path) -> None:
    assert why_not_on_hub(NAME) == "HF_HUB_OFFLINE keeps it from being fetched"
    assert doctor_search.encoder(NAME).level == "fault"
    with pytest.raises(InvalidInput, match="HF_HUB_OFFLINE"):
        fetch_encoder(NAME)


def test_a_hub_that_cannot_be_reached_is_a_fault_and_one_that_has_it_a_warning(
    snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    real = huggingface_hub.HfApi
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: real("http://127.0.0.1:9"))
    assert "has none of this name" in why_not_on_hub("no name of a model")
    found = doctor_search.encoder(NAME)
    assert found.level == "fault" and "the model hub cannot be reached" in found.detail

    class Hub:
        def model_info(self, name: str, *, timeout: float) -> None: ...

    monkeypatch.setattr(huggingface_hub, "HfApi", Hub)
    found = doctor_search.encoder(NAME)
    assert (found.level, found.mend) == ("warning", "fetch it before: add --fetch")


def test_to_fetch_is_to_load_once(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(constants, "is_offline_mode", lambda: False)
    monkeypatch.setattr(encoder, "_load", lambda name, device: loaded.append(name))
    assert fetch_encoder(NAME) and loaded == [NAME]
    assert not fetch_encoder("minilm") and not fetch_encoder("http://127.0.0.1:9/v1#words") and loaded == [NAME]
