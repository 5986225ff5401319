# The image of trainings: TRL with vLLM for its rollouts, at the versions of locks/trl.lock, with CUDA's libraries from PyPI.
#   docker build -f containers/training.Dockerfile -t trailforge-training:latest .
# DeepSpeed (sharding zero2, zero3) is no part of the lock: add `RUN pip install deepspeed` where it is wanted.
FROM python:3.11-slim-bookworm

# triton compiles its kernels when they are first used.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates curl gcc git libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 forger \
    && install --directory --owner=forger /data
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY locks/trl.lock /srv/trl.lock
RUN python -m venv /opt/trailforge && /opt/trailforge/bin/pip install --no-deps --requirement /srv/trl.lock
COPY . /srv/trailforge
RUN /opt/trailforge/bin/pip install --no-deps /srv/trailforge
ENV PATH=/opt/trailforge/bin:$PATH PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 DO_NOT_TRACK=1 VLLM_NO_USAGE_STATS=1
USER 1000
WORKDIR /data
CMD ["trailforge", "train", "--help"]
