"""What sub-agents are asked under the imported protocol, and how their answers come back.

The reference has sub-agents in its rollouts alone, behind a trainer. So its own function and its own f-string, taken
out of `paravt/rl`, are called on the windows that were asked for, and compared with what paravt-bench sends.
"""
import ast
import collections
import os
import sys

import wire_words
from released import functions

FILES = ("paravt/rl/subagents/crop_video/cropped_video.py", "paravt/rl/workflow.py")


def parsed(source: str, name: str) -> ast.Module:
    with open(os.path.join(source, name), encoding="utf-8") as file:
        return ast.parse(file.read())


def build_prompt(source: str):
    """The reference's function of a window, without the module around it."""
    ask = functions(os.path.join(source, FILES[0]), {"build_prompt"}, {})["build_prompt"]
    return lambda start, end: ask(None, "", start_time=start, end_time=end)


def formatted(source: str, name: str, *variables: str):
    """The f-string of a file that is made of these variables alone, as a function of them."""
    (text,) = wire_words.texts(parsed(source, name), set(variables))
    code = compile(ast.Expression(text), name, "eval")
    return lambda *values: eval(code, dict(zip(variables, values, strict=True)))  # noqa: S307


def windows(wire, messages: list) -> list:
    """Windows of the calls in a conversation, as the reference reads them."""
    if wire.code not in sys.path:
        sys.path.insert(0, wire.code)
    from paravt.eval import driver, utils

    found = []
    for message in messages:
        for call in driver.parse_tool_calls(message["content"] or "") if message["role"] == "assistant" else []:
            arguments = call.get("arguments", {}) or {}
            start = utils.parse_time_val(arguments.get("start_time", arguments.get("start", 0)))
            found.append((start, utils.parse_time_val(arguments.get("end_time", arguments.get("end", start + 10)))))
    return found


def text(message: dict) -> str:
    content = message["content"]
    return content if isinstance(content, str) else content[-1]["text"]


def differ(wire, cell: tuple) -> bool:
    """Runs one cell with sub-agents; true, and said, where a text is another than the reference's."""
    source = os.path.join(wire.base, "checkout")
    ask, answered = build_prompt(source), formatted(source, FILES[1], "tool_output_text")
    refused = formatted(source, "paravt/eval/driver.py", "st", "et")
    exchanges, ran = wire.ours(cell, "--crop", "subagent")
    expected, asked, answers, responses, errors = collections.Counter(), collections.Counter(), set(), [], set()
    conversations = {}
    for request, status, body in exchanges:
        first = request["messages"][0]
        if first["role"] == "user":
            asked[text(first)] += 1
            if status == 200:
                answers.add(answered(body["choices"][0]["message"]["content"] or ""))
        else:
            # The calls of the last reply are run too, where a sub-agent that fails ends the sample.
            last = [body["choices"][0]["message"]] if status == 200 else []
            conversations[text(request["messages"][1])] = request["messages"] + last
    for messages in conversations.values():
        for start, end in windows(wire, messages):
            errors.add(refused(start, end))
            try:
                expected[ask(start, end)] += 1
            except (ValueError, OverflowError):
                pass  # A window without a number: the reference fails.
        users = [text(message) for message in messages[2:] if message["role"] == "user"]
        responses += [one for one in users if one.startswith("<tool_response>")]
    # A request that fails is sent again: what counts is which windows are asked about.
    wrong = [f"asked: {one[-300:]!r}" for one in asked if one not in expected]
    wrong += [f"came back: {one[-300:]!r}" for one in responses if one not in answers | errors]
    plain = sum(one in answers for one in responses)
    print(f"sub-agents of {cell[0]}: {len(asked)} prompts, {plain} summaries of {len(responses)} responses, {len(wrong)} differ")
    for line in wrong[:4]:
        print(f"    {line}")
    if not asked or not plain:
        print(f"    no sub-agent answered; exit {ran.returncode}: {ran.stderr[-300:]}")
    return bool(wrong) or not asked or not plain
