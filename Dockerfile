# The server in a container: docker compose up, or docker build -t lethevec . && docker run -v data:/data lethevec
FROM python:3.12-slim AS build
# The base image decides which versions there are; the compiler is not in the final image.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml CMakeLists.txt PACKAGE.md LICENSE ./
COPY native native
COPY src src
RUN python -m venv /opt/lethevec \
    && /opt/lethevec/bin/pip install --no-cache-dir '.[server,datasets]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --home-dir /nonexistent --no-create-home lethevec \
    && mkdir /data \
    && chown lethevec /data \
    && chmod 700 /data
COPY --from=build /opt/lethevec /opt/lethevec
ENV PATH=/opt/lethevec/bin:$PATH PYTHONUNBUFFERED=1 LETHEVEC_SERVER_HOST=0.0.0.0
USER 10001
VOLUME /data
EXPOSE 8765
# SIGTERM lets requests in flight finish.
STOPSIGNAL SIGTERM
# In the clear or by TLS, whichever the server speaks.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-m", "lethevec.server.health"]
ENTRYPOINT ["lethevec"]
# Beyond loopback it needs a key (`lethevec keys make /data/people --role admin`), and TLS here or in a proxy before it.
CMD ["serve", "/data/people", "--behind-proxy"]
