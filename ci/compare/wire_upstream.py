"""Runs the reference's own driver.main() once per job, in the environment of ci/compare/wire.txt.

    wire_upstream.py CODE JOBS.json

CODE holds the reference's `paravt` package. A job is {"root", "argv"}: the data root in the layout of
the Hugging Face cache and the driver's command line. Only `datasets.load_dataset` is replaced: the
generated files are read where they lie, so that nothing is fetched.
"""
import glob
import json
import os
import sys
import types

import pyarrow.parquet


def load_dataset(repository, *_, cache_dir=None, **__):
    """Rows of the annotation file of a repository in the hub cache, under whatever owner."""
    name = repository.split("/")[1]
    snapshots = os.path.join(os.path.dirname(cache_dir), "hub", f"datasets--*--{name}", "snapshots", "*")
    files = [path for kind in ("parquet", "json") for path in glob.glob(f"{snapshots}/**/*.{kind}", recursive=True)]
    if len(files) != 1:
        raise FileNotFoundError(f"{repository}: {files}")
    if files[0].endswith(".json"):
        with open(files[0], encoding="utf-8") as file:
            return json.load(file)
    return pyarrow.parquet.read_table(files[0]).to_pylist()


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        jobs = json.load(file)
    datasets = types.ModuleType("datasets")
    datasets.load_dataset = load_dataset
    sys.modules["datasets"] = datasets
    from paravt.eval import driver

    for job in jobs:
        os.environ["HF_HOME"] = job["root"]
        snapshots = glob.glob(os.path.join(job["root"], "hub", "datasets--*--MMVU", "snapshots", "*"))
        os.environ["PARAVT_MMVU_VIDEO_DIR"] = snapshots[0]
        sys.argv = ["driver", *job["argv"]]
        driver.main()


if __name__ == "__main__":
    main()
