"""Stand-in for the reference's file: its structure, other words."""


class CroppedVideoSubagent:
    def get_tool_name(self) -> str:
        return "crop_video"

    def build_prompt(self, task: str, **kwargs) -> str:
        start_time = kwargs.get("start_time", 0)
        end_time = kwargs.get("end_time", 0)

        def format_time(seconds: float) -> str:
            mins = int(seconds // 60)
            secs = int(seconds % 60)
            return f"{mins:02d}:{secs:02d}"

        start_str = format_time(start_time)
        end_str = format_time(end_time)
        duration = end_time - start_time

        prompt = f"""Part {start_str} to {end_str} ({duration:.1f} s).

Say {{briefly}} what is there."""

        return prompt
