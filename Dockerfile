# paravt-bench for servers:
#
#     docker build -t paravt-bench .
#     docker run --rm -v /srv/data:/data -v "$PWD/runs:/runs" paravt-bench doctor
#     docker run --rm --network host -v /srv/data:/data -v "$PWD/runs:/runs" paravt-bench \
#         run all --data /data --base-url http://localhost:8000/v1 --out /runs/mine
#
# Both stages are of one Debian, whose FFmpeg the command is built for and loads.
FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential ca-certificates clang curl git libclang-dev pkg-config \
        libavcodec-dev libavformat-dev libavutil-dev libswscale-dev libavfilter-dev libavdevice-dev libswresample-dev \
    && rm -rf /var/lib/apt/lists/*
ENV CARGO_HOME=/opt/cargo RUSTUP_HOME=/opt/rustup PATH=/opt/cargo/bin:$PATH
RUN curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --no-modify-path --profile minimal
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/opt/cargo/registry --mount=type=cache,target=/src/target \
    cargo install --locked --path suite/cli --root /usr/local

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates git libavcodec59 libavformat59 libavutil57 libswscale6 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /usr/local/bin/paravt-bench /usr/local/bin/paravt-bench
# Not as root; what runs write goes to a mounted folder, caches to the home.
RUN useradd --create-home --uid 1000 bench && install -d -o bench /data /runs
USER bench
WORKDIR /home/bench
ENTRYPOINT ["paravt-bench"]
CMD ["--help"]
