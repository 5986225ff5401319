# The image of runs: data sets, Dask's scheduler and workers, Prefect, the page. It holds no weights and wants no GPU.
#   docker build -f containers/core.Dockerfile -t trailforge:latest .
FROM python:3.11-slim-bookworm AS build

# Extras of pyproject.toml; `small-model` would bring the packaged model's runtime.
ARG EXTRAS=backends,bundles,cluster,page
# torch for CPUs: the one of PyPI brings 3 GB of CUDA along.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/trailforge
COPY . /srv/trailforge
# The lock bounds what is installed; it holds all extras.
RUN /opt/trailforge/bin/pip install --extra-index-url "$TORCH_INDEX" --constraint /srv/trailforge/requirements.lock \
    "/srv/trailforge[$EXTRAS]"

FROM python:3.11-slim-bookworm

# curl asks servers for their health. Versions are those of the base image's release.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 forger \
    && install --directory --owner=forger /data /var/lib/prefect
COPY --from=build /opt/trailforge /opt/trailforge
# What Prefect's deployments are made from: prefect.yaml and the flows that it names.
COPY --chown=forger . /srv/trailforge
# No module is imported from the folder that a command is started in, and nothing is reported to anybody.
ENV PATH=/opt/trailforge/bin:$PATH PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 DO_NOT_TRACK=1 \
    PREFECT_SERVER_ANALYTICS_ENABLED=false PREFECT_HOME=/var/lib/prefect
USER 1000
WORKDIR /data
CMD ["trailforge", "--help"]
