"""Logs of the real lmms-eval and lm-eval against a server that fails some requests, and `audit` of them.

    audit.py BINARY OUT [ROWS]

The server answers a question by its number in the text: it fails every request of some questions (HTTP 500 and 400),
writes prose around a letter for others, and the letter alone for the rest. What it did is the truth that the counts of
`audit --json` have to equal.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import chat_server

LETTERS = "ABCD"
PROSE = "I believe A person in the video is holding what could be described as a tool."


def kind(number: int) -> str:
    """What the server does with a question: 3 of 10 fail."""
    return ["letter", "fail", "letter", "prose", "fail", "letter", "empty", "fail", "letter", "letter"][number % 10]


def gold(number: int) -> str:
    return LETTERS[number * 7 % 4]


def letter(number: int) -> str:
    return LETTERS[number * 5 % 4]


class Handler(chat_server.Handler):
    def do_POST(self):
        number = int(re.findall(r"question number (\d+)", json.dumps(self.read()))[-1])
        what = kind(number)
        if what == "fail":
            status = 400 if number % 20 < 10 else 500
            return self.reply(status, {"error": {"message": "made to fail", "type": "test", "code": status}})
        text = {"letter": letter(number), "prose": PROSE, "empty": ""}[what]
        self.reply(200, chat_server.completion({"role": "assistant", "content": text}))


LMMS_TASK = """
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
task: videomme_text
test_split: test
output_type: generate_until
doc_to_visual: !function utils.no_visual
doc_to_text: !function utils.text
doc_to_target: answer
generation_kwargs: {{max_new_tokens: 16, temperature: 0}}
process_results: !function utils.process_results
metric_list: [{{metric: videomme_perception_score, aggregation: !function utils.aggregate, higher_is_better: true}}]
metadata: [{{version: 0.0}}]
"""
LMMS_UTILS = """
from lmms_eval.tasks.videomme.utils import videomme_process_results as process_results

def no_visual(doc):
    return []

def text(doc, lmms_eval_specific_kwargs=None):
    return doc["question"] + "\\n" + "\\n".join(doc["options"])

def aggregate(results):
    return sum(one["score"] for one in results) / len(results)
"""
LM_TASK = """
dataset_path: json
dataset_kwargs: {{data_files: {{test: {rows}}}}}
task: letters
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}}\\n{{{{options | join('\\n')}}}}"
doc_to_target: answer
generation_kwargs: {{max_gen_toks: 16, until: []}}
filter_list:
  - name: first_letter
    filter: [{{function: regex, regex_pattern: "([A-D])"}}, {{function: take_first}}]
  - name: strict_letter
    filter: [{{function: regex, regex_pattern: "^([A-D])$"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
metadata: {{version: 0.0}}
"""


def questions(out: Path, rows: int, fails: bool) -> Path:
    """Rows with the columns of Video-MME; without `fails`, those that the server answers."""
    path = out / ("rows.jsonl" if fails else "answered.jsonl")
    with open(path, "w") as file:
        for number in (number for number in range(rows) if fails or kind(number) != "fail"):
            options = [f"{one}. option {one.lower()}{number}" for one in LETTERS]
            row = {"question_id": f"{number:03}", "videoID": f"v{number // 3}", "duration": "short", "domain": "Knowledge",
                   "sub_category": "Geography", "task_type": "OCR Problems", "question": f"This is question number {number}.",
                   "options": options, "answer": gold(number)}
            file.write(json.dumps(row) + "\n")
    return path


def lmms_eval(out: Path, rows: Path, url: str) -> Path:
    folder = out / "lmms_task"
    folder.mkdir()
    (folder / "videomme_text.yaml").write_text(LMMS_TASK.format(rows=rows))
    (folder / "utils.py").write_text(LMMS_UTILS)
    run(out, ["-m", "lmms_eval", "--model", "openai", "--model_args",
              f"base_url={url},api_key=none,model_version=m,max_retries=2,retry_backoff_s=0.01,timeout=20",
              "--tasks", "videomme_text", "--include_path", str(folder), "--log_samples", "--output_path", str(out / "lmms")])
    return next((out / "lmms").rglob("*_samples_videomme_text.jsonl"))


def lm_eval(out: Path, rows: Path, url: str) -> Path:
    folder = out / "lm_task"
    folder.mkdir()
    (folder / "letters.yaml").write_text(LM_TASK.format(rows=rows))
    run(out, ["-m", "lm_eval", "--model", "local-chat-completions", "--model_args",
              f"base_url={url}/chat/completions,model=m,num_concurrent=1,max_retries=1,tokenized_requests=False",
              "--tasks", "letters", "--include_path", str(folder), "--apply_chat_template", "--log_samples",
              "--output_path", str(out / "lm")])
    return next((out / "lm").rglob("samples_letters_*.jsonl"))


def run(out: Path, arguments: list[str]):
    environment = os.environ | {"HF_HOME": str(out / "hf"), "HF_DATASETS_OFFLINE": "1", "OPENAI_API_KEY": "none"}
    with open(out / "log.txt", "a") as log:
        subprocess.run([sys.executable, *arguments], check=True, stdout=log, stderr=log, env=environment)


def audit(binary: str, log: Path) -> dict:
    done = subprocess.run([binary, "audit", str(log), "--json"], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)["audits"][0]


def expect(name: str, found, wanted):
    print(f"{'ok  ' if found == wanted else 'FAIL'} {name}: {found}" + ("" if found == wanted else f", expected {wanted}"))
    return found == wanted


def main(binary: str, folder: str, count: str = "50"):
    out, rows = Path(folder).resolve(), int(count)
    out.mkdir(parents=True)
    url = chat_server.start(Handler)
    numbers = range(rows)
    of = lambda *kinds: [number for number in numbers if kind(number) in kinds]
    good = []

    lines = [json.loads(line) for line in open(lmms_eval(out, questions(out, rows, True), url))]
    found = audit(binary, next((out / "lmms").rglob("*_samples_videomme_text.jsonl")))
    doubts = {one["doubt"]: one for one in found["doubts"]}
    metric = {line["doc_id"]: line["videomme_perception_score"] for line in lines}
    right = lambda some: sum(metric[number]["score"] > 0 for number in some)
    good.append(expect("lmms-eval: rows", found["rows"], rows))
    good.append(expect("lmms-eval: failed requests", doubts["failure"]["rows"], len(of("fail"))))
    good.append(expect("lmms-eval: of these scored as answers", doubts["failure"]["scored"], len(of("fail"))))
    good.append(expect("lmms-eval: of these right (all taken for D)", doubts["failure"]["right"], sum(gold(n) == "D" for n in of("fail"))))
    good.append(expect("lmms-eval: what it took from failures", sorted({metric[n]["pred_answer"] for n in of("fail")}), ["D"]))
    good.append(expect("lmms-eval: empty answers", doubts["empty"]["rows"], len(of("empty"))))
    taken = [n for n in of("prose") if metric[n]["pred_answer"]]
    good.append(expect("lmms-eval: letters from prose", doubts["prose"]["rows"], len(taken)))
    good.append(expect("lmms-eval: of these right", doubts["prose"]["right"], right(taken)))
    good.append(expect("lmms-eval: score in the file", round(found["reported"]["value"], 9), round(right(numbers) / rows, 9)))
    strict = sum(gold(n) == letter(n) for n in of("letter")) / rows
    good.append(expect("lmms-eval: strict", round(found["strict"]["value"], 9), round(strict, 9)))
    good.append(expect("lmms-eval: videos", found["strict"]["videos"], -(-rows // 3)))

    # lm-eval ends the whole evaluation at a request that fails: its log is of the questions that are answered.
    answered = [n for n in numbers if kind(n) != "fail"]
    log = lm_eval(out, questions(out, rows, False), url)
    found = audit(binary, log)
    doubts = {one["doubt"]: one for one in found["doubts"]}
    lines = [json.loads(line) for line in open(log)]
    first = {line["doc_id"]: line for line in lines if line["filter"] == lines[0]["filter"]}
    good.append(expect("lm-eval: rows of the first filter", found["rows"], len(answered)))
    good.append(expect("lm-eval: lines of the other filter", found["other_filters"], len(lines) - len(first)))
    good.append(expect("lm-eval: empty answers", doubts["empty"]["rows"], len(of("empty"))))
    prose = [i for i, n in enumerate(answered) if kind(n) == "prose" and first[i]["filtered_resps"][0] in LETTERS]
    good.append(expect("lm-eval: letters from prose", doubts["prose"]["rows"], len(prose)))
    score = sum(line["exact_match"] for line in first.values()) / len(first)
    good.append(expect("lm-eval: score in the file", round(found["reported"]["value"], 9), round(score, 9)))
    strict = sum(gold(n) == letter(n) for n in of("letter")) / len(answered)
    good.append(expect("lm-eval: strict", round(found["strict"]["value"], 9), round(strict, 9)))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
