"""Makes training rows in the published shapes, and applies the release's rule to them.

The rule is written down here from its description (ParaVT cf55249 paravt/data/materialize.py): a path that begins with
a published prefix becomes `file://` and the real path below the root; JSON texts are decoded, walked and written again.
"""

import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

PREFIXES = ("longvt_source/", "museg/", "selfqa/")
URL = pa.struct([("url", pa.string())])
PART = pa.struct([("type", pa.string()), ("text", pa.string()), ("video_url", URL), ("image_url", URL)])
MESSAGE = pa.struct([("role", pa.string()), ("content", pa.list_(PART))])


def part(kind, value):
    filled = {"type": kind, "text": None, "video_url": None, "image_url": None}
    filled[kind] = value if kind == "text" else {"url": value}
    return filled


def conversation(index):
    paths = [
        f"longvt_source/videor1_{index % 3}.mp4",
        f"file://museg/clip {index}.mp4",
        "selfqa/ünï/b.mp4",
        "museg/link/c.mp4",
        "/already/absolute.mp4",
        "unknown/d.mp4",
        "",
    ]
    return [
        {"role": "system", "content": [part("text", "tools: {\"a\": 1.50}")]},
        {"role": "user", "content": [part("video_url", paths[index % len(paths)]), part("text", "Was? 何 \u2028 </s>")]},
        {"role": "user", "content": [part("image_url", f"longvt_source/p_{index % 2}.png"), part("video_url", None)]},
        {"role": "assistant", "content": [part("text", "longvt_source/not_a_path.mp4")]},
    ]


def make(folder):
    os.makedirs(folder, exist_ok=True)
    rows = list(range(40))
    pq.write_table(
        pa.table({"id": pa.array(rows, pa.int32()), "messages": pa.array([json.dumps(conversation(i)) for i in rows])}),
        f"{folder}/paravt_sft_text.parquet",
    )
    odd = [
        '[ {"type":"video_url","video_url":{"url":"museg/x.mp4","fps":2e0,"n":12345678901234567890}} ]',
        '{"messages": [{"content": [{"type": "image_url", "image_url": {"url": "selfqa/y.png"}}]}], "k": [NaN, null]}',
        '{"type": "video_url", "image_url": {"url": "museg/other_kind.mp4"}, "video_url": null}',
        '"[1.0, {\\"a\\": \\"museg/text_in_text.mp4\\"}]"',
        "[]",
        None,
    ]
    pq.write_table(pa.table({"messages": pa.array(odd, pa.large_string())}), f"{folder}/paravt_sft_odd.parquet")
    nested = [None if i == 7 else conversation(i) for i in rows]
    schema = pa.schema(
        [("messages", pa.list_(MESSAGE)), ("source", pa.string())], metadata={"huggingface": '{"info": {}}'}
    )
    pq.write_table(
        pa.table({"messages": nested, "source": [f"s{i}" for i in rows]}, schema=schema),
        f"{folder}/paravt_sft_nested.parquet",
        row_group_size=11,
    )
    videos = [[{"video": f"longvt_source/videor1_{i % 3}.mp4"}, {"video": "museg/none.mp4"}] for i in rows]
    videos[3], videos[4], videos[5] = [], None, [{"video": None}, {"video": "/x/y.mp4"}]
    prompt = [[{"role": "user", "content": "<video>longvt_source/videor1_0.mp4"}] for _ in rows]
    extra = [json.dumps({"answer": "A", "question_type": "mcq"}) for _ in rows]
    pq.write_table(
        pa.table({"prompt": prompt, "videos": videos, "extra_info": extra}), f"{folder}/paravt_rl_diverse.parquet"
    )
    pq.write_table(pa.table({"messages": ["not json"]}), f"{folder}/other.parquet")


class Rule:
    def __init__(self, root):
        self.root, self.missing = root, {}

    def path(self, given):
        if not given:
            return given
        published = given[7:] if given.startswith("file://") else given
        if not published.startswith(PREFIXES):
            return given
        real = os.path.realpath(os.path.join(self.root, published))
        if not os.path.exists(real):
            bucket = published.split("/", 1)[0]
            self.missing[bucket] = self.missing.get(bucket, 0) + 1
        return "file://" + real

    def messages(self, value):
        if isinstance(value, str):
            return json.dumps(self.messages(json.loads(value)), ensure_ascii=False)
        if isinstance(value, list):
            return [self.messages(item) for item in value]
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for kind in ("video_url", "image_url"):
            link = value.get(kind)
            if value.get("type") == kind and link and link.get("url"):
                value[kind] = dict(link, url=self.path(link["url"]))
        for deeper in ("content", "messages"):
            if deeper in value:
                value[deeper] = self.messages(value[deeper])
        return value

    def videos(self, value):
        if not isinstance(value, list):
            return value
        return [dict(item, video=self.path(item["video"])) if isinstance(item, dict) and "video" in item else item for item in value]


def compare(published, root, written):
    """Checks every written file against the rule and prints the rule's counts of missing media."""
    counts = {}
    names = sorted(name for name in os.listdir(published) if name.startswith("paravt_"))
    assert names == sorted(name for name in os.listdir(written) if name.endswith(".parquet")), os.listdir(written)
    for name in names:
        before, after = pq.read_table(f"{published}/{name}"), pq.read_table(f"{written}/{name}")
        assert before.schema.equals(after.schema, check_metadata=True), (name, before.schema, after.schema)
        rule = Rule(root)
        for column in before.schema.names:
            walk = {"messages": rule.messages, "videos": rule.videos}.get(column, lambda value: value)
            expected = [walk(value) for value in before.column(column).to_pylist()]
            for row, (left, right) in enumerate(zip(expected, after.column(column).to_pylist(), strict=True)):
                assert left == right, (name, column, row, left, right)
        counts[name] = rule.missing
    print(json.dumps(counts))


if __name__ == "__main__":
    {"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
