"""Stand-in for the reference's file: its structure, other words."""


class HierarchicalAgentWorkflow:
    async def arun_episode(self, engine, data):
        turn = 0
        while turn <= self.max_turns:
            for tool_call, result in self.results:
                if result:
                    tool_output_text = self.extract(result)
                    if len(tool_output_text) > 512:
                        tool_output_text = tool_output_text[:512] + " [cut]"
                    tool_output_text = (
                        f"<tool_response>\nSub: {tool_output_text}\n</tool_response>"
                    )
                else:
                    self.append(f"[Failed: {tool_call.function.name}]")
            turn += 1
