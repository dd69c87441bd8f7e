CHAT_TEMPLATE = """
{% for message in messages %}
    <|{{ message['role'] }}|>{{ message['content'] if message['content'] is string else 'list' }}
{% endfor %}
"""
SYSTEM_PROMPT_MULTI_ROUND_MC = """Look {closely}."""
TOOL_CALL_CROP_VIDEO_MULTI_TRUN_PROMPT_MC = '''Action {action_turn}, clip {observation_turn}:
<video>{sample_fps:.2f} fps, {total_frames:.1f} frames, {start_time:.1f} to {end_time:.1f}. Go on.
'''
ERROR_INFO_MULTI_TURN_PROMPT = "Wrong: {error_info}. Mend it."
FORCE_FINAL_ANSWER_PROMPT = '''Action {action_turn}, last clip {observation_turn}: <video>{sample_fps:.2f}, {total_frames:.1f}, {start_time:.1f}-{end_time:.1f}'''
FORCE_FINAL_ANSWER_PROMPT_ERROR_INFO = '''Wrong: {error_info}. Answer now.'''
