"""Which of Beam's runners may be used, and with what."""

from __future__ import annotations

import sys

import pytest

from trailforge.pipelines.engine.runners import (
    beam_options,
    check_runner,
    dask_address,
    is_dask,
    is_local,
    telling_line,
)
from trailforge.schemas import ClusterError, InvalidInput


def test_without_a_word_it_is_the_runner_of_this_process() -> None:
    assert beam_options() == ("--runner=FnApiRunner",)
    assert is_local(beam_options()) and is_local(beam_options("fnapi", ["direct_num_workers=2"]))


def test_options_become_beam_s() -> None:
    options = beam_options("portable", ["job_endpoint=localhost:8099", "environment_type=EXTERNAL", "streaming"])
    assert options[0] == "--runner=PortableRunner" and not is_local(options)
    assert options[1:] == ("--job_endpoint=localhost:8099", "--environment_type=EXTERNAL", "--streaming")


@pytest.mark.parametrize("name", ["DaskRunner", "apache_beam.runners.dask.dask_runner.DaskRunner"])
def test_beam_s_runner_for_dask_which_loses_and_doubles_rows_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="loses rows and doubles others without a word; take --cluster"):
        beam_options(name)


def test_dask_is_used_without_beam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    assert beam_options("dask") == beam_options(" Dask") == ("--runner=dask",)
    assert is_dask(beam_options("dask")) and not is_local(beam_options("dask"))
    assert dask_address((*beam_options("dask"), "--scheduler=tls://head:8786")) == "tls://head:8786"
    assert dask_address(beam_options()) == ""


@pytest.mark.parametrize("name", ["DirectRunner", "prism", "SwitchingDirectRunner"])
def test_runners_that_download_a_program_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="downloads a program"):
        beam_options(name)


def test_an_unknown_runner_is_told_which_there_are() -> None:
    with pytest.raises(InvalidInput, match=r"no runner 'FlunkRunner'; there are dask, .*FlinkRunner") as caught:
        beam_options("FlunkRunner")
    assert "DaskRunner" not in str(caught.value)


@pytest.mark.parametrize("option", ["", "=1", "--job_endpoint=x", "a b=1", "runner=DaskRunner"])
def test_an_option_that_is_none_is_refused(option: str) -> None:
    with pytest.raises(InvalidInput, match="--beam-option"):
        beam_options("FnApiRunner", [option])


def test_a_portable_run_needs_a_job_service_that_listens() -> None:
    with pytest.raises(InvalidInput, match="job_endpoint=HOST:PORT"):
        beam_options("PortableRunner")
    check_runner(beam_options())
    with pytest.raises(ClusterError, match=r"no job service at 127\.0\.0\.1:9 "):
        check_runner(beam_options("PortableRunner", ["job_endpoint=127.0.0.1:9"]))
    with pytest.raises(ClusterError, match=r"no scheduler of Dask at tls://127\.0\.0\.1:9 "):
        check_runner(("--runner=dask", "--scheduler=tls://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Traceback …\nKeyError: 'a bug'\n", "KeyError: 'a bug'"),
        ('<_Error of RPC:\n\tstatus = X\n\tdetails = "refused"\n\tdebug = "y"\n>\n', '"refused"'),
        ("", "RuntimeError"),
    ],
)
def test_of_a_runner_s_error_the_telling_line_is_shown(text: str, line: str) -> None:
    assert telling_line(RuntimeError(text)) == line


@pytest.mark.parametrize(
    ("runner", "options"),
    [("DaskRunner", ()), ("prism", ()), ("Flink", ("--x=1",)), ("Flink", ("runner=x",)), ("portable", ())],
)
def test_what_is_refused_is_refused_before_beam_is_loaded(
    monkeypatch: pytest.MonkeyPatch, runner: str, options: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam.options.pipeline_options", None)
    with pytest.raises(InvalidInput):
        beam_options(runner, options)
