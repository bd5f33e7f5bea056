# The image has the wheel and nothing of the source tree. Data is on a volume; the broker runs as a user without rights.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY tailrace tailrace
COPY pyspark_tailrace pyspark_tailrace
COPY config config
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl \
    && rm -rf /wheels \
    && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin tailrace \
    && install --directory --owner=tailrace --group=tailrace /data
USER tailrace
VOLUME /data
# Prometheus scrapes from outside the container; on a host of its own the broker keeps its metrics to loopback.
ENV TAILRACE_METRICS_HOST=0.0.0.0
EXPOSE 9092 9308
STOPSIGNAL SIGTERM
ENTRYPOINT ["tailrace", "serve", "--data-dir", "/data"]
