VIDEO_INSERT_PROMPT = """Whole:
<video>{sample_fps:.2f} fps, {total_frames:.1f} frames, 0 to {max_duration:.1f}."""
QUESTION_TEMPLATE_MULTI_ROUND_MC = """
Q: {question}
Options:
{options}
"""
QUESTION_TEMPLATE_MULTI_ROUND_MC_LVBench = """
Q: {question}
"""
