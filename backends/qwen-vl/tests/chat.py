"""Renders conversations with transformers' own Jinja environment: chat.py TEMPLATES.json > RENDERED.json

In: [{"template", "messages", "tools", "add_generation_prompt"}]; out: [text or null where it raises].
"""
import json
import sys

from transformers.utils.chat_template_utils import render_jinja_template

out = []
for case in json.load(open(sys.argv[1])):
    try:
        open_end = case["messages"][-1]["role"] == "assistant"
        rendered, _ = render_jinja_template(
            conversations=[case["messages"]], tools=case["tools"], chat_template=case["template"],
            add_generation_prompt=not open_end, continue_final_message=open_end, eos_token="<|im_end|>")
        out.append(rendered[0])
    except Exception as error:  # What raises there must fail here.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        out.append(None)
print(json.dumps(out))
