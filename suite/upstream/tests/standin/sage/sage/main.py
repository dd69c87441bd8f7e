class SAGE:
    def format_tool_calls(self, tool_calls):
        for tool_call in tool_calls:
            text += f"{tool_call} gave {tool_calls[tool_call].get('result', 'none')};"

    def format_tool_calls_args(self, tool_calls):
        for tool_call in tool_calls:
            text += f"{tool_call} of {tool_calls[tool_call].get('arguments', {})}"

    def get_tool_calls(self, vlm_response):
        return {"tool_calls": {"x": {"result": "Nobody called"}}}

    def get_iterative_reasoner_results(self, query):
        video_info_prompt = f"Video {video_path}, {timestamp_format}."

    def execute_tool_call(self, function_calls):
        if not isinstance(org_arguments, dict):
            raise ValueError(f"found {type(org_arguments)}")
        try:
            if not ok:
                raise ValueError(f"Not for {tool_call['name']}: {errors}")
            results["x"] = {"result": function_call_result}
        except Exception as e:
            results["x"] = ({"result": f"{tool_call['name']} failed: {str(e)} with {str(arguments)}"})

    def run_inference(self, query):
        final_answer = f"None after {self.max_num_iterative_reasoner_calls}"
        tool_calls_result = {"None": {"result": "Neither called nor answered"}}
