"""A stand-in of the same structure as the upstream loaders, in words of our own: for tests of the importer."""


def load_samples(dataset_name, hf_home, prompt_mode="agentic_general"):
    mcq_instr = (
        "Think, then one letter."
        if prompt_mode == "direct"
        else "One letter."
    )

    if dataset_name == "videomme":
        samples = []
        for item in hf_home:
            opts = item.get("options", [])
            if isinstance(opts, list):
                opts_str = "\n".join(f"{chr(65 + i)}) {o}" for i, o in enumerate(opts))
            else:
                opts_str = str(opts)
            question = f"Q: {item['question']}\nO:\n{opts_str}\n{mcq_instr}"
            samples.append({"question": question})
        return samples

    if dataset_name == "videomme_wsub":
        samples = []
        for item in hf_home:
            opts_str = "\n".join(f"{chr(65 + i)}) {o}" for i, o in enumerate(item["options"]))
            sub_text = "text"
            sub_prefix = (
                f"Said:\n{sub_text}\n\n" if sub_text else ""
            )
            question = f"{sub_prefix}Q: {item['question']}\nO:\n{opts_str}\n{mcq_instr}"
            samples.append({"question": question})
        return samples

    if dataset_name == "longvideobench":
        samples = []
        for item in hf_home:
            opts_str = "\n".join(f"{chr(65 + i)}) {o}" for i, o in enumerate(item["opts"]))
            samples.append({"question": f"Q: {item['question']}\nO:\n{opts_str}\n{mcq_instr}"})
        return samples

    if dataset_name == "lvbench":
        return [{"question": f"{item['question']}\n{mcq_instr}"} for item in hf_home]

    if dataset_name == "mlvu":
        samples = []
        for item in hf_home:
            opts_str = "\n".join(f"{chr(65 + j)}) {o}" for j, o in enumerate(item["candidates"]))
            samples.append({"question": f"Q: {item['question']}\nO:\n{opts_str}\n{mcq_instr}"})
        return samples

    if dataset_name == "mmvu":
        samples = []
        for item in hf_home:
            choices = item.get("choices", {}) or {}
            opts_str = "\n".join(f"{k}) {v}" for k, v in sorted(choices.items()) if v)
            samples.append({"question": f"Q: {item['question']}\nO:\n{opts_str}\n{mcq_instr}"})
        return samples

    if dataset_name == "charades":
        samples = []
        for item in hf_home:
            caption = item["caption"]
            samples.append(
                {
                    "question": (
                        "When is it? "
                        f'It: "{caption}". '
                        "Say when."
                    ),
                }
            )
        return samples

    raise ValueError(f"unknown: {dataset_name}")
