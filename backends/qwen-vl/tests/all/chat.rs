//! Chat templates beside transformers' own Jinja: whitespace control, namespaces, macros, Python's string

//! methods, slices, `tojson`, tools, vision parts, raised errors.

use std::process::Command;

use paravt_qwen_vl::chat::ChatTemplate;
use serde_json::{Value, json};

/// The constructs that published templates are made of, in sentences of our own.
const TEMPLATES: [&str; 8] = [
    // Block trimming with and without dashes, and a literal line break at the end.
    "{% for m in messages %}\n  {% if m.role == 'user' %}\nU: {{ m.content }}\n  {% else %}\n\
     {{- '<' + m.role + '>' }}\n{%- endif %}\n{% endfor %}\n",
    // Tools, compact and indented.
    "{%- if tools %}\n    {{- 'Tools:' }}\n    {%- for tool in tools %}\n        {{- \"\\n\" }}\n        \
     {{- tool | tojson }}\n    {%- endfor %}\n    {{- tools[0] | tojson(indent=2) }}\n{%- endif %}\n\
     {%- for m in messages %}{{ m.role }}{% endfor %}",
    // Counting media across messages.
    "{% set images = namespace(value=0) %}{% set videos = namespace(value=0) %}{% for m in messages %}\
     {% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}\
     {% if part.type == 'image' or 'image' in part or 'image_url' in part %}{% set images.value = images.value + 1 %}\
     {% if add_vision_id %}Picture {{ images.value }}: {% endif %}<I{{ images.value }}>\
     {% elif part.type == 'video' or 'video' in part %}{% set videos.value = videos.value + 1 %}<V{{ videos.value }}>\
     {% elif 'text' in part %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}",
    // Backwards, and the index of the last question.
    "{%- set ns = namespace(found=false, last=messages|length - 1) %}{%- for m in messages[::-1] %}\
     {%- set index = (messages|length - 1) - loop.index0 %}{%- if not ns.found and m.role == 'user' %}\
     {%- set ns.found = true %}{%- set ns.last = index %}{%- endif %}{%- endfor %}{{ ns.last }}",
    // Python's string methods.
    "{% for m in messages %}{% if m.content is string and m.content.startswith('<think>') and \
     '</think>' in m.content %}{{ m.content.split('</think>')[-1].lstrip('\\n') }}|\
     {{ m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].strip() }}{% else %}\
     {{ m.role.upper() }}{% endif %}{% endfor %}{{ eos_token }}",
    // Tool calls inside messages, arguments as text or as an object.
    "{% for m in messages %}{% if m.tool_calls %}{% for call in m.tool_calls %}{% if call.function %}\
     {% set call = call.function %}{% endif %}{\"name\": \"{{ call.name }}\", \"arguments\": \
     {% if call.arguments is string %}{{ call.arguments }}{% else %}{{ call.arguments | tojson }}{% endif %}}\
     {% endfor %}{% endif %}{% if m.reasoning is defined and m.reasoning is not none %}{{ m.reasoning }}{% endif %}\
     {% endfor %}",
    // Macros, loop controls, conditional expressions.
    "{%- macro show(m, first) -%}{{ '' if first else ', ' }}{{ m.role }}{%- endmacro -%}{%- for m in messages -%}\
     {%- if m.role == 'tool' -%}{%- continue -%}{%- endif -%}{{ show(m, loop.first) }}\
     {%- if loop.last or (messages[loop.index0 + 1].role != 'tool') -%};{%- endif -%}{%- endfor -%}\
     {{- 'go' if add_generation_prompt else 'stop' }}",
    // An error by the template's own word.
    "{% if messages[0].role != 'system' %}{{ raise_exception('a system message is needed') }}{% endif %}fine",
];

fn conversations() -> Vec<(Value, Value)> {
    let tool = json!([{"type": "function", "function": {"name": "crop_video", "description": "Zeigt Bilder <b> & 'Zeit' — ü",
        "parameters": {"type": "object", "properties": {"start": {"type": "number", "minimum": 0.5}}, "required": []}}}]);
    let plain = json!([{"role": "user", "content": "Why?\n"}]);
    let long = json!([
        {"role": "system", "content": "Be <brief> & \"kind\"."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a\n"}, {"type": "video"}, {"type": "image"}]},
        {"role": "assistant", "content": "<think>\nwell\n</think>\n\nYes.", "tool_calls": [
            {"function": {"name": "crop_video", "arguments": {"start": 1.0, "end": 2, "why": "ü\u{2028}</script>"}}},
            {"name": "other", "arguments": "{\"a\": 1}"}]},
        {"role": "tool", "content": "frames"},
        {"role": "user", "content": "And\tnow?"}]);
    let open = json!([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "<think>\n"}]);
    vec![
        (plain.clone(), Value::Null),
        (plain, tool.clone()),
        (long.clone(), Value::Null),
        (long, tool),
        (open, Value::Null),
    ]
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn templates_render_as_in_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let cases: Vec<Value> = TEMPLATES
        .iter()
        .flat_map(|template| {
            let case =
                move |(messages, tools)| json!({"template": template, "messages": messages, "tools": tools});
            conversations().into_iter().map(case)
        })
        .collect();
    let path = folder.path().join("cases.json");
    std::fs::write(&path, serde_json::to_vec(&cases).unwrap()).unwrap();
    let python = std::env::var_os("PARAVT_PYTHON").expect("PARAVT_PYTHON: run ci/setup, then ci/test");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/chat.py");
    let output = Command::new(python).arg(script).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wanted: Vec<Option<String>> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(wanted.len(), cases.len());
    let mut raised = 0;
    for (case, wanted) in cases.iter().zip(wanted) {
        let template = case["template"].as_str().unwrap();
        std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
        std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"eos_token": "<|im_end|>"}"#)
            .unwrap();
        let ours = ChatTemplate::read(folder.path()).unwrap();
        let tools = Some(&case["tools"]).filter(|tools| !tools.is_null());
        let found = ours.render(&case["messages"], tools);
        raised += usize::from(wanted.is_none());
        assert_eq!(found.as_ref().ok(), wanted.as_ref(), "{template}\n{}\n{found:?}", case["messages"]);
    }
    // Those without a system message, and those that do not repeat the words to go on from.
    assert!(raised > 3 && raised < cases.len() / 2, "{raised} of {} raise", cases.len());
}
