"""Reads an exported folder with the tool that it was made for, and prints what the tool found as one JSON object.

    python read_back.py TOOL FOLDER

The facts of a split stand under its name: numbers of samples, of errors, the score. The tests compare them with the run.
"""

import glob
import json
import os
import sys


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else None


def read_inspect(folder):
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries
    from inspect_ai.model import ContentImage
    from inspect_ai.scorer import value_to_float

    facts, number = {}, value_to_float()
    for info in list_eval_logs(folder):
        log = read_eval_log(info, resolve_attachments=True)
        summaries = read_eval_log_sample_summaries(info)
        alone = [read_eval_log_sample(info, sample.id, sample.epoch) for sample in log.samples]
        messages = [message for sample in log.samples for message in sample.messages]
        parts = [part for message in messages if isinstance(message.content, list) for part in message.content]
        images = [part.image for part in parts if isinstance(part, ContentImage)]
        main = log.results.scores[0]
        values = [number(sample.scores[main.name].value) for sample in log.samples if main.name in (sample.scores or {})]
        facts[log.eval.task] = {
            "status": log.status,
            "model": log.eval.model,
            "profile": log.eval.metadata["profile"],
            "samples": len(log.samples),
            "summaries": len(summaries),
            "alone": [sample.id for sample in alone] == [sample.id for sample in log.samples],
            "errors": sorted(sample.id for sample in log.samples if sample.error),
            "summary_errors": sorted(summary.id for summary in summaries if summary.error),
            "scored": main.scored_samples,
            "texts_of_failed": [sample.output.completion for sample in log.samples if sample.error],
            "metrics": {name: metric.value for name, metric in main.metrics.items()},
            "headline": log.eval.headline_metric.metric,
            "values": values,
            "tool_calls": sum(len(getattr(message, "tool_calls", None) or []) for message in messages),
            "tool_results": sum(1 for message in messages if message.role == "tool" and message.tool_call_id),
            "images": len(images),
            "images_are_jpeg": all(image.startswith("data:image/jpeg;base64,/9j/") for image in images),
            "output_tokens": sum(sample.output.usage.output_tokens for sample in log.samples if sample.output.usage),
        }
    return facts


def read_inspect_tables(folder):
    """The data frames of inspect_ai: a row per log, a row per sample."""
    from inspect_ai.analysis import evals_df, samples_df

    evals, samples = evals_df(folder), samples_df(folder)
    return {"evals": len(evals), "samples": len(samples), "status": dict(zip(evals["task_name"], evals["status"]))}


def read_lmms_eval(folder):
    from lmms_eval.baselines.loader import load_baseline

    facts = {}
    for path in glob.glob(f"{folder}/*/*_samples_*.jsonl"):
        task = os.path.basename(path).split("_samples_")[1].removesuffix(".jsonl")
        scores, results = load_baseline(path, task)
        values = results["results"][task].items()
        facts[task] = {
            "rows": sorted(scores),
            "score": mean(scores.values()),
            "metrics": {key.split(",")[0]: value for key, value in values if key.endswith(",none")},
            "n": results["n-samples"][task],
            "profile": results["configs"][task]["metadata"]["profile"],
        }
    return facts


def read_lm_eval(folder):
    from every_eval_ever.converters.lm_eval.adapter import LMEvalAdapter
    from lm_eval.utils import get_file_datetime, get_file_task_name, get_results_filenames, get_sample_results_filenames

    files = glob.glob(f"{folder}/*/*")
    results, samples = get_results_filenames(files), get_sample_results_filenames(files)
    adapter, converted = LMEvalAdapter(), {}
    for path in results:
        # The converter of Every Eval Ever reads the folder as lm-evaluation-harness leaves it.
        for log in adapter.transform_from_file(path, {"source_organization_name": "test"}):
            for result in log.evaluation_results:
                converted.setdefault(result.evaluation_name, {})[result.metric_config.metric_name] = {
                    "score": result.score_details.score,
                    "n": result.score_details.uncertainty.num_samples,
                }
    facts = {}
    for path in samples:
        name = os.path.basename(path)
        lines = [json.loads(line) for line in open(path)]
        stamps = [get_file_datetime(result).removesuffix(".json") for result in results]
        facts[get_file_task_name(name)] = {
            "rows": sorted(line["doc_id"] for line in lines),
            "score": mean(line[line["metrics"][0]] for line in lines),
            "has_results": get_file_datetime(name) in stamps,
            "converted": converted.get(get_file_task_name(name)),
        }
    return facts


def read_eee(folder):
    from pathlib import Path

    from every_eval_ever.validator.validation_core import validate_file

    facts = {}
    files = sorted(glob.glob(f"{folder}/data/*/*/*/*"))
    names = [os.path.relpath(path, folder) for path in files]

    def read(name):
        return Path(folder, name).read_text()

    for path, name in zip(files, names):
        report = validate_file(
            Path(path), repo_path=name, available_files=names, read_repo_file=read, run_semantic_checks=True
        )
        fact = facts.setdefault(name.split("/")[1], {"errors": [], "warnings": []})
        fact["errors"] += report.errors
        fact["warnings"] += report.warnings
        if path.endswith(".json"):
            results = json.loads(read(name))["evaluation_results"]
            fact["metrics"] = {one["metric_config"]["metric_id"]: one["score_details"]["score"] for one in results}
        else:
            lines = [json.loads(line) for line in open(path)]
            fact["samples"] = len(lines)
            fact["failed"] = sorted(line["sample_id"] for line in lines if line["error"])
            fact["agentic"] = sum(1 for line in lines if line["interaction_type"] == "agentic")
            fact["texts_of_failed"] = [line["output"]["raw"] for line in lines if line["error"] and line.get("output")]
    return facts


def read_vlmevalkit(folder):
    os.environ["PRED_FORMAT"] = "tsv"
    from vlmeval.dataset.utils.videomme import SUB_CATEGORIES, extract_characters_regex
    from vlmeval.dataset.videomme import VideoMME
    from vlmeval.smp import load

    # The generated rows have a sub-category that the published ones lack.
    SUB_CATEGORIES.append("Shapes")
    facts = {}
    for path in glob.glob(f"{folder}/*/*.tsv"):
        table = load(path)
        model = os.path.basename(os.path.dirname(path))
        name = os.path.basename(path).removesuffix(".tsv").removeprefix(f"{model}_")
        letters = [extract_characters_regex(str(text)) for text in table["prediction"]]
        facts[name] = {
            "rows": sorted(int(index) for index in table["index"]),
            "columns": list(table.columns),
            "missing": int(table["prediction"].isna().sum()),
            "right": sum(letter == str(answer) for letter, answer in zip(letters, table["answer"])),
        }
        if name.startswith("Video-MME"):
            # Its own evaluation, without a judge, which needs no data set of its own.
            rating = VideoMME.__new__(VideoMME).evaluate(path, model="exact_matching")
            facts[name]["overall"] = float(rating["overall"]["overall"])
    return facts


def read_atif(folder):
    from harbor.models.trajectories import Trajectory
    from harbor.utils.trajectory_validator import TrajectoryValidator

    facts = {}
    for path in sorted(glob.glob(f"{folder}/*/*.json")):
        validator = TrajectoryValidator()
        found = facts.setdefault(os.path.basename(os.path.dirname(path)), {
            "trajectories": 0, "invalid": [], "tool_calls": 0, "results": 0, "tokens": 0})
        found["trajectories"] += 1
        if not validator.validate(path):
            found["invalid"].append([os.path.basename(path), *map(str, validator.get_errors())])
            continue
        with open(path) as file:
            trajectory = Trajectory.model_validate_json(file.read())
        found["tool_calls"] += sum(len(step.tool_calls or []) for step in trajectory.steps)
        found["results"] += sum(len(step.observation.results) for step in trajectory.steps if step.observation)
        total = trajectory.final_metrics
        found["tokens"] += total.total_prompt_tokens + total.total_completion_tokens
    return facts


READERS = {
    "atif": read_atif,
    "inspect": read_inspect,
    "inspect-tables": read_inspect_tables,
    "lmms-eval": read_lmms_eval,
    "lm-eval": read_lm_eval,
    "eee": read_eee,
    "vlmevalkit": read_vlmevalkit,
}

if __name__ == "__main__":
    tool, folder = sys.argv[1:]
    # What a tool prints goes to standard error: standard output is the facts alone.
    output, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps(READERS[tool](folder)), file=output)
