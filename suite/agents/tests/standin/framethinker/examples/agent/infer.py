def process_single_problem(qa_item):
    system_prompt = f"Choose among {num_frames_to_sample} by crop_video."
    initial_prompt_text = f"{question}\n"
    for times in range(3):
        if times > 1:
            system_prompt = f"Answer."
