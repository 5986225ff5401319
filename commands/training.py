"""`trailforge train`: supervised training and reinforcement learning."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from trailforge.pipelines.sources import Audited
    from trailforge.protocols.environment import Environment
    from trailforge.training import TrainPreset
from trailforge.commands.audit import AuditedFolder
from trailforge.commands.launch import LauncherName, launch_elsewhere
from trailforge.commands.options import (
    Encoder,
    FilterModel,
    KgFilterOption,
    PassagePrefix,
    QueryPrefix,
    Retrieval,
    check_training_set,
    read_settings,
)
from trailforge.schemas import InvalidInput, check_packages

_TRAINERS = ("accelerate", "datasets", "peft", "torch", "transformers", "trl")
"""Modules of extras that a training here imports."""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Train an agent on a training set. Needs the extra `train`.",
)


_Set = Annotated[Path, typer.Argument(help="Folder of a training set.", metavar="DIR")]
_Preset = Annotated[
    str,
    typer.Option(help="msearcher, r-search, dynasearcher, ragsearch, and ours: abstention, browse, demo; or a file."),
]
_Base = Annotated[
    str | None,
    typer.Option(help="Folder or name of the base model, or 'smollm2' for the small packaged one."),
]
_Out = Annotated[Path, typer.Option(help="Output folder: checkpoints, logs, model.")]
_Resume = Annotated[bool, typer.Option("--resume", help="Resume from the last complete checkpoint in --out.")]
_Steps = Annotated[int | None, typer.Option(min=1, help="Maximum number of optimizer steps.")]
_Logging = Annotated[
    Literal["tensorboard", "wandb", "none"] | None, typer.Option(help="Logger. Default: the preset's.")
]
_Seed = Annotated[int | None, typer.Option(help="Random seed. Default: the preset's.")]
_Documents = Annotated[
    list[Path] | None,
    typer.Option(
        help="What agents search: finished runs (repeatable), or one corpus: an index, or a file of passages."
    ),
]
_EncoderDevice = Annotated[
    str | None,
    typer.Option(help="Device of the encoder: cpu, cuda:7, auto; several with commas. Default: the preset's."),
]
_Kg = Annotated[
    str | None,
    typer.Option(help="For agents that search a graph: folder that `kg build` made, or URL of a `serve-search --kg`."),
]
_Rollouts = Annotated[
    Literal["vllm-server", "vllm-colocate", "transformers"] | None,
    typer.Option(
        help="What generates: a separate vLLM server, vLLM on the trainer's devices, or the trainer's own model."
    ),
]
_VllmUrl = Annotated[str | None, typer.Option(help="URL of the server, for --rollouts vllm-server.")]
_VllmMemory = Annotated[
    float, typer.Option(min=0.05, max=0.95, help="Share of a device's memory, for --rollouts vllm-colocate.")
]
_VllmSleep = Annotated[
    bool, typer.Option("--vllm-sleep", help="A colocated engine frees its memory during training steps.")
]
_VllmParallel = Annotated[int, typer.Option(min=1, help="Tensor parallelism of a colocated engine.")]
_Weights = Annotated[
    Literal["token_truncate", "none"] | None,
    typer.Option(
        help="Importance weights of tokens that vLLM sampled: token_truncate (the trainer's probability over vLLM's, "
        "at most the preset's importance_cap), or none. Default: the preset's."
    ),
]
_Engine = Annotated[Literal["trl", "verl"], typer.Option(help="verl: on a Ray cluster; its files go to OUT/verl.")]
_EngineOptions = Annotated[
    Path | None,
    typer.Option(help="For verl: YAML with nodes, devices_per_node, memory, sequence_parallel …: docs/cluster.md."),
]
_EnginePython = Annotated[
    str, typer.Option(help="For verl: Python of its environment, which has trailforge[agent] too.")
]
_Launcher = Annotated[
    LauncherName | None,
    typer.Option(help="How to start it: accelerate (this node's devices), slurm, k8s (JobSet). Default: this process."),
]
_Launch = Annotated[
    Path | None,
    typer.Option("--launch", help="YAML with nodes, devices_per_node, sharding, partition, image …: docs/cluster.md."),
]
_Print = Annotated[bool, typer.Option("--print", help="With --launcher or verl: print the files and do not start.")]


@app.command(
    "dpo",
    help="Train on pairs of a better and a worse conversation, from where they diverge (DPO).",
    epilog="""Examples:\n
    trailforge train dpo sets/kg --preset dynasearcher --base-model trained/sft/model --out trained/dpo""",
)
@app.command(
    "sft",
    help="Train on conversations (SFT); the loss is taken on the agent's turns only.",
    epilog="""Examples:\n
    trailforge train sft sets/musique --preset msearcher --base-model models/qwen2.5-7b --out trained/sft\n
    trailforge train sft sets/musique --preset msearcher --out trained/sft \\\n
        --launcher slurm --launch cluster.yaml --print\n
    trailforge train sft sets/demo --preset demo --max-steps 3 --out trained/demo     the packaged model, on a CPU\n
    trailforge train sft … --resume                    goes on from the last whole checkpoint""",
)
def train_offline(
    context: typer.Context,
    training_set: _Set,
    preset: _Preset,
    out: _Out,
    base_model: _Base = None,
    resume: _Resume = False,
    logging: _Logging = None,
    seed: _Seed = None,
    max_steps: _Steps = None,
    launcher: _Launcher = None,
    launch: _Launch = None,
    print_files: _Print = False,
) -> None:
    """Train on rows as they are: on conversations, or on pairs of them."""
    if launch_elsewhere(context, launcher, launch, print_files, out):
        return
    check_packages(_TRAINERS, "a training")
    check_training_set(training_set)
    from trailforge.training.trl import train_dpo, train_sft

    train = train_sft if context.info_name == "sft" else train_dpo
    recipe = _recipe(preset, logging, seed)
    print(train(training_set, recipe, out, base_model=base_model, resume=resume, max_steps=max_steps))


@app.command(
    epilog="""Examples:\n
    trailforge train rl sets/musique --preset msearcher --base-model trained/sft/model --documents indexes/wiki \\\n
        --retrieval hybrid --rollouts vllm-server --vllm-url http://10.0.0.5:8000 --out trained/rl\n
    trailforge train rl sets/musique --preset msearcher --base-model trained/sft/model \\\n
        --retrieval http://10.0.0.5:8000 --engine verl --engine-python .venv-verl/bin/python --out trained/rl\n
    trailforge train rl sets/research --preset browse --documents indexes/pages --out trained/research\n
    trailforge train rl sets/bundles --preset r-search-local --documents out/bundles --out trained/rl\n
    trailforge train rl sets/kg --preset dynasearcher --documents out/kg --kg kgs/wikidata5m --out trained/rl""",
)
def rl(
    context: typer.Context,
    training_set: _Set,
    preset: _Preset,
    out: _Out,
    documents: _Documents = None,
    retrieval: Retrieval = None,
    encoder: Encoder = None,
    query_prefix: QueryPrefix = None,
    passage_prefix: PassagePrefix = None,
    encoder_device: _EncoderDevice = None,
    kg: _Kg = None,
    kg_filter: KgFilterOption = None,
    filter_model: FilterModel = None,
    base_model: _Base = None,
    resume: _Resume = False,
    logging: _Logging = None,
    seed: _Seed = None,
    max_steps: _Steps = None,
    audited: AuditedFolder = None,
    rollouts: _Rollouts = None,
    vllm_url: _VllmUrl = None,
    vllm_memory: _VllmMemory = 0.3,
    vllm_sleep: _VllmSleep = False,
    vllm_tensor_parallel: _VllmParallel = 1,
    importance_weights: _Weights = None,
    engine: _Engine = "trl",
    engine_options: _EngineOptions = None,
    engine_python: _EnginePython = "python3",
    launcher: _Launcher = None,
    launch: _Launch = None,
    print_files: _Print = False,
) -> None:
    """Train by reinforcement learning: the agent searches for answers and is rewarded for each episode."""
    is_ours = engine != "verl" or launcher is not None
    if is_ours and launch_elsewhere(context, launcher, launch, print_files, out):
        return
    recipe = _recipe(preset, logging, seed, rollouts=rollouts, importance_weights=importance_weights)
    recipe = _searching(recipe, retrieval, encoder, query_prefix, passage_prefix, device=encoder_device)
    recipe = dataclasses.replace(recipe, retrieval=recipe.retrieval.filtered_by(kg_filter, filter_model))
    if engine == "verl":
        return _train_on_verl(recipe, context.params)
    check_packages((*_TRAINERS, "openai", *(("rapidfuzz",) if kg else ())), "a training")
    check_training_set(training_set)
    environment = _environment(recipe, documents, kg)  # what is missing is said before anything heavy is loaded
    known = _read_audited(audited)
    from trailforge.training.trl import VllmOptions, train_rl

    model = train_rl(
        training_set,
        recipe,
        out,
        environment=environment,
        base_model=base_model,
        resume=resume,
        max_steps=max_steps,
        audited=known,
        vllm=VllmOptions(server=vllm_url, memory=vllm_memory, sleep=vllm_sleep, tensor_parallel=vllm_tensor_parallel),
    )
    print(model)


@app.command(
    epilog="""Examples:\n
    trailforge train check sets/musique --preset msearcher --base-model models/qwen2.5-7b --out checks/first\n
    trailforge train check sets/demo --preset demo --max-steps 3 --limit 4 --out checks/demo     a CPU will do\n
    The same line again goes on where it stopped."""
)
def check(
    training_set: _Set,
    preset: _Preset,
    out: Annotated[Path, typer.Option(help="Output folder: sft, before, after.")],
    base_model: _Base = None,
    backend: Annotated[str, typer.Option(help="What is searched, as for `evaluate`.", metavar="NAME[=PLACE]")] = "bm25",
    documents: Annotated[
        Path | None, typer.Option(help="Corpus of the back end, if it is not the questions' own paragraphs.")
    ] = None,
    kg: _Kg = None,
    evaluation: Annotated[
        str | None, typer.Option(help="Preset of `evaluate`. Default: demo with --preset demo, else ragsearch.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N held-out questions.")] = None,
    logging: _Logging = None,
    seed: _Seed = None,
    max_steps: _Steps = None,
) -> None:
    """Check that a training set helps: a base model answers its held-out questions, is trained on it (SFT), answers
    again, and both are compared.
    """
    check_packages(_TRAINERS, "a training")
    check_training_set(training_set)
    from trailforge.commands.evaluate import PACKAGED, evaluate
    from trailforge.commands.look import compare
    from trailforge.training.trl import find_last_whole, train_sft

    recipe = _recipe(preset, logging, seed)
    base = base_model or recipe.sft.base_model
    if base != PACKAGED and not Path(base).is_dir():
        problem = f"{base!r} is no folder with a checkpoint, which is asked before training"
        raise InvalidInput(
            f"{problem}; fetch it (`hf download {base} --local-dir models/base`) and give models/base",
            field="--base-model",
        )

    def ask(model: str, name: str) -> None:
        evaluate(
            training_set,
            out / name,
            [recipe.protocol],
            [backend],
            model=model,
            limit=limit,
            documents=documents,
            kg=kg,
            preset=evaluation or ("demo" if preset == "demo" else "ragsearch"),
        )

    ask(base, "before")
    trained = out / "sft" / "model"
    if not (out / "sft" / "training.json").is_file():
        resume = find_last_whole(out / "sft") is not None
        trained = train_sft(
            training_set, recipe, out / "sft", base_model=base_model, resume=resume, max_steps=max_steps
        )
    ask(str(trained), "after")
    compare(str(out / "before"), str(out / "after"))


def register(root: typer.Typer) -> None:
    """Add the commands of `trailforge train`."""
    root.add_typer(app, name="train")


def _recipe(preset: str, logging: str | None, seed: int | None, **of_rl: str | None) -> TrainPreset:
    """A preset with what was asked for in its place."""
    from trailforge.training import load_train_preset

    recipe = load_train_preset(preset)
    changes = {"logging": logging, "seed": seed}
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    in_rl = given | {name: choice for name, choice in of_rl.items() if choice is not None}
    return dataclasses.replace(
        recipe,
        sft=dataclasses.replace(recipe.sft, **given),
        dpo=recipe.dpo and dataclasses.replace(recipe.dpo, **given),
        rl=dataclasses.replace(recipe.rl, **in_rl),
    )


def _searching(
    recipe: TrainPreset, retrieval: str | None, *of_encoder: str | None, device: str | None = None
) -> TrainPreset:
    """A preset with what was said of retriever and encoder."""
    search = recipe.retrieval.of_kind(retrieval)
    search.refuse_encoder(*of_encoder)
    search = search.with_encoder(*of_encoder)
    return dataclasses.replace(recipe, retrieval=dataclasses.replace(search, device=device or search.device))


def _environment(recipe: TrainPreset, documents: list[Path] | None, kg: str | None) -> Environment:
    from trailforge.retrieval import WEB
    from trailforge.training import open_training_environment

    if documents and recipe.retrieval.kind == WEB:
        problem = "the preset searches the live web and no documents; take its local one, or say --retrieval"
        raise InvalidInput(f"{problem} (presets: msearcher-local, r-search-local)", field="--documents")
    return open_training_environment(
        recipe.protocol, documents or (), search=recipe.retrieval, kg=kg, top_k=recipe.rl.top_k
    )


def _read_audited(folder: Path | None) -> Audited:
    from trailforge.pipelines.sources import read_audited

    return read_audited(folder)


def _train_on_verl(recipe: TrainPreset, said: Mapping[str, Any]) -> None:
    """`said`: the options of `train rl` by name."""
    from trailforge.training.exports import VerlFiles, VerlOptions, start

    files = VerlFiles(
        recipe=recipe,
        options=read_settings(VerlOptions, said["engine_options"]),
        base_model=said["base_model"],
        python=said["engine_python"],
        max_steps=said["max_steps"],
        resume=said["resume"],
        audited=said["audited"],
    )
    script = files.write(said["training_set"], said["out"], said["documents"] or (), said["kg"])
    print(script)
    if files.note:
        print(files.note, file=sys.stderr)
    if not said["print_files"]:
        start(script)
