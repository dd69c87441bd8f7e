"""Random texts and numbers, as models write them and as they should not. Used by ci/compare/protocols.py."""

ODD = [
    " ",
    "  ",
    "\n",
    "\n\n",
    "\t",
    "\u00a0",
    "\u3000",
    "\x1c",
    "\x1f",
    "\u0301",
    "²",
    "٣",
    "５",
    "é",
    "你",
    ".",
    ",",
    "!",
]
LETTERS = list("ABCDEFGHIJKLMZabcdh")


def pick(rng, fragments, most=9):
    """A text of fragments, odd ones among them."""
    pieces = [rng.choice(ODD if rng.random() < 0.15 else fragments) for _ in range(rng.randint(0, most))]
    text = "".join(pieces)
    if text and rng.random() < 0.1:
        at = rng.randrange(len(text))
        text = text[:at] + text[at + 1 :]
    return text


def answers(rng):
    words = ["The answer is ", "The best answer is", "Best answer:", "Final Answer:", "Option:", "answer", "Answer: "]
    words += [
        "I choose ",
        "(",
        ")",
        ". ",
        ":",
        "-",
        "_",
        "=",
        "1. ",
        "2. ",
        "<answer>",
        "</answer>",
        "\\boxed{",
        "}",
        "{",
    ]
    words += [
        "one two three four five six seven eight nine ten eleven ",
        "red hat",
        "İ the answer ",
        "12",
        "3.5",
        " .\n",
    ]
    return pick(rng, words + LETTERS, 10)


def number(rng):
    kind = rng.random()
    if kind < 0.4:
        return str(rng.randint(0, 400))
    if kind < 0.8:
        return f"{rng.uniform(0, 400):.{rng.randint(1, 3)}f}"
    return rng.choice(["1.", ".5", "007", "1_0", "-3", "+4", "1e3", "nan", "inf", "1,000", "٣", "", "x", "9" * 30])


def stamp(rng):
    seconds = rng.choice([rng.randint(0, 700), rng.randint(0, 40), rng.randint(0, 8000)])
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


RATES = [1.0, 23.976023976023978, 24.0, 25.0, 29.97, 29.97002997002997, 30.0, 50.0, 59.94, 60.0, 0.5, 12.345]


def side(rng):
    return rng.choice([rng.randint(1, 2200), rng.choice([28, 224, 360, 448, 480, 640, 720, 1080, 1280, 1920])])


def json_text(rng):
    """What a model may write for a call, half of it as it should."""
    if rng.random() < 0.5:
        start, rate = (
            rng.choice([rng.randint(0, 300), round(rng.uniform(0, 300), 2)]),
            rng.choice(["1", "2.0", '"4"', "fine"]),
        )
        return f'{{"segment": [{start}, {start + rng.randint(0, 9)}], "fps": {rate}}}'
    values = [
        number(rng),
        f'"{number(rng)}"',
        "null",
        "true",
        "[]",
        '"',
        '""',
        "{}",
        "NaN",
        "-Infinity",
        "1" * 400,
        '"\\u00e9\'"',
    ]
    item = lambda: rng.choice([number(rng)] * 4 + values)
    pair = lambda: f"[{item()}, {item()}]"
    fields = [f'"segment": {rng.choice([pair(), pair(), pair(), item(), f"[{item()}]"])}', f'"fps": {item()}']
    if rng.random() < 0.2:
        fields.append(f'"{rng.choice(["x", "segment", "é"])}": {item()}')
    rng.shuffle(fields)
    text = "{" + rng.choice([", ", ", ", ",\n", ",,", " "]).join(fields[: rng.choice([3, 3, 3, 1])]) + "}"
    if rng.random() < 0.15:
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(["", "'", '"', "\\", "\t", "}"]) + text[at + 1 :]
    return text
