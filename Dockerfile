# paravt-bench for servers:
#
#     docker build -t paravt-bench .
#     docker run --rm -v /srv/data:/data -v "$PWD/runs:/runs" paravt-bench doctor
#     docker run --rm --network host -v /srv/data:/data -v "$PWD/runs:/runs" paravt-bench \
#         run all --data /data --base-url http://localhost:8000/v1 --out /runs/mine
#
# Both stages are of one Debian, whose FFmpeg the command is built for and loads.
FROM rust:1.95.0-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential clang git libclang-dev pkg-config libavcodec-dev libavformat-dev libavutil-dev libswscale-dev \
        libzstd-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
# The image's own toolchain, whatever rust-toolchain.toml asks for.
ENV RUSTUP_TOOLCHAIN=1.95.0
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo install --locked --path suite/cli --root /opt/paravt

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates git libavcodec59 libavformat59 libavutil57 libswscale6 libzstd1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/paravt/bin/paravt-bench /usr/local/bin/paravt-bench
# Not as root; what runs write goes to a mounted folder, caches to the home.
RUN useradd --create-home --uid 1000 bench && install -d -o bench /data /runs
USER bench
WORKDIR /home/bench
ENTRYPOINT ["paravt-bench"]
CMD ["--help"]
