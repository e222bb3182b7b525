# The image of all HexGen-Celery processes (target `runtime`), and of a vLLM server that
# `hexgen vllm serve` keeps running (target `vllm`).
#
#   docker build --target runtime -t hexgen-celery .
#   docker build --target vllm -t hexgen-celery-vllm .

ARG PYTHON_VERSION=3.13
ARG VLLM_TAG=v0.32.0

FROM python:${PYTHON_VERSION}-slim AS builder
WORKDIR /source
RUN python -m venv /opt/hexgen
COPY constraints.txt ./
COPY pyproject.toml README.md LICENSE ./
COPY hexgen_celery hexgen_celery
COPY stages stages
COPY workers workers
COPY profiles profiles
COPY migrations migrations
RUN /opt/hexgen/bin/pip install --no-cache-dir -c constraints.txt '.[postgres]'

FROM python:${PYTHON_VERSION}-slim AS runtime
RUN useradd --create-home --uid 10001 hexgen \
    && mkdir -p /state /databases \
    && chown hexgen:hexgen /state
COPY --from=builder /opt/hexgen /opt/hexgen
ENV PATH=/opt/hexgen/bin:$PATH PYTHONUNBUFFERED=1
USER hexgen
WORKDIR /state
ENTRYPOINT ["hexgen"]

FROM vllm/vllm-openai:${VLLM_TAG} AS vllm
COPY --from=builder /source /source
RUN pip install --no-cache-dir /source \
    && useradd --create-home --uid 10001 hexgen \
    && mkdir -p /state /models \
    && chown hexgen:hexgen /state /models
ENV HF_HOME=/models
USER hexgen
WORKDIR /state
ENTRYPOINT ["hexgen"]
