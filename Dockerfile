# perfgate as an image: it judges files that other containers measured. To measure in an image of your own, install
# perfgate there: docs/how-to/install.md.
FROM python:3.12-slim AS build
COPY pyproject.toml README.md LICENSE /source/
COPY perfgate /source/perfgate
RUN python -m venv --without-pip /opt/perfgate \
    && python -m pip --python /opt/perfgate/bin/python install --no-cache-dir --compile /source

FROM python:3.12-slim
# git reads the rules and baselines of another commit (--policy-ref). It refuses a folder that another user owns, as
# every mounted folder is here.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* \
    && git config --system --add safe.directory '*'
COPY --from=build /opt/perfgate /opt/perfgate
ENV PATH=/opt/perfgate/bin:$PATH
# Judge an example once. It proves that the image works, and it writes the bytecode of the modules of Python that a check
# uses: the image of Python has none, and the user below may not write it.
RUN --mount=type=bind,source=examples/tiny-gpt,target=/mnt cd /mnt && python -m perfgate check runs/change.log --no-github
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["python", "-m", "perfgate"]
